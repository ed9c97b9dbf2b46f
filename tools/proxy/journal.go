package main

import (
	"fmt"
	"log"
	"sync"
	"time"
)

const (
	// Between two lines about the same thing.
	tellEvery = 10 * time.Second
	// Different things that are told of at a time; of more just the number.
	mostTold = 64
)

// journal logs who asks, and what was refused to whom: a line at once, then how often in each period, as anybody can be
// refused as often as they like.
type journal struct {
	mutex   sync.Mutex
	callers map[string]bool
	refused map[string]int // line -> how often since it was logged
	others  int
}

func newJournal() *journal { return &journal{callers: map[string]bool{}, refused: map[string]int{}} }

// decided tells of an address the first time that it is given a decision.
func (j *journal) decided(who string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.callers[who] || len(j.callers) >= mostTold {
		return
	}
	j.callers[who] = true
	log.Printf("%s asks for decisions", who)
}

// refuse tells that a request was refused.
func (j *journal) refuse(who, why string) {
	line := fmt.Sprintf("refused %s: %s", who, why)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if _, known := j.refused[line]; known {
		j.refused[line]++
		return
	}
	if len(j.refused) >= mostTold {
		j.others++
		return
	}
	j.refused[line] = 0
	log.Print(line)
	time.AfterFunc(tellEvery, func() { j.sumUp(line) })
}

// sumUp tells how often it was so since the line was logged.
func (j *journal) sumUp(line string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if more := j.refused[line]; more > 0 {
		log.Printf("%s (%d times more)", line, more)
	}
	if j.others > 0 {
		log.Printf("refused %d requests more, of other addresses or for other reasons", j.others)
		j.others = 0
	}
	delete(j.refused, line)
}
