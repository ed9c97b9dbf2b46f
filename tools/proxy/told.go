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

// told logs who asks, and what was refused to whom: a line at once, then how often in each period, as anybody can be
// refused as often as they like.
type told struct {
	mutex   sync.Mutex
	callers map[string]bool
	refused map[string]int // line -> how often since it was logged
	others  int
}

func newTold() *told { return &told{callers: map[string]bool{}, refused: map[string]int{}} }

// decided tells of an address the first time that it is given a decision.
func (t *told) decided(who string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.callers[who] || len(t.callers) >= mostTold {
		return
	}
	t.callers[who] = true
	log.Printf("%s asks for decisions", who)
}

// refuse tells that a request was refused.
func (t *told) refuse(who, why string) {
	line := fmt.Sprintf("refused %s: %s", who, why)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if _, known := t.refused[line]; known {
		t.refused[line]++
		return
	}
	if len(t.refused) >= mostTold {
		t.others++
		return
	}
	t.refused[line] = 0
	log.Print(line)
	time.AfterFunc(tellEvery, func() { t.sumUp(line) })
}

// sumUp tells how often it was so since the line was logged.
func (t *told) sumUp(line string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if more := t.refused[line]; more > 0 {
		log.Printf("%s (%d times more)", line, more)
	}
	if t.others > 0 {
		log.Printf("refused %d requests more, of other addresses or for other reasons", t.others)
		t.others = 0
	}
	delete(t.refused, line)
}
