package main

// This file logs callers and refused requests without flooding the log.

import (
	"fmt"
	"log"
	"sync"
	"time"
)

const (
	// The period after which the repetitions of a line are summed up.
	summaryEvery = 10 * time.Second
	// The most different lines, and the most callers, that are logged in a period. Others are only counted.
	mostLines = 64
)

// journal logs who asks, and which requests were refused: the first refusal of a kind at once, and then its number in
// each period, because anybody can cause as many refusals as they like.
type journal struct {
	mutex   sync.Mutex
	callers map[string]bool
	refused map[string]int // line -> its repetitions since it was logged
	others  int            // refusals without a line of their own
}

func newJournal() *journal { return &journal{callers: map[string]bool{}, refused: map[string]int{}} }

// decided logs an address when it gets its first decision.
func (j *journal) decided(who string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.callers[who] || len(j.callers) >= mostLines {
		return
	}
	j.callers[who] = true
	log.Printf("%s asks for decisions", who)
}

// refuse logs that a request was refused.
func (j *journal) refuse(who, why string) {
	line := fmt.Sprintf("refused %s: %s", who, why)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if _, known := j.refused[line]; known {
		j.refused[line]++
		return
	}
	if len(j.refused) >= mostLines {
		j.others++
		return
	}
	j.refused[line] = 0
	log.Print(line)
	time.AfterFunc(summaryEvery, func() { j.sumUp(line) })
}

// sumUp logs how often the refusal was repeated since its line was logged.
func (j *journal) sumUp(line string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if more := j.refused[line]; more > 0 {
		log.Printf("%s (%d times more)", line, more)
	}
	if j.others > 0 {
		log.Printf("refused %d more requests, from other addresses or for other reasons", j.others)
		j.others = 0
	}
	delete(j.refused, line)
}
