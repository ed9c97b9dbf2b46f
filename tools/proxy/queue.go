package main

import (
	"context"
	"sync"
)

// queue lets `slots` requests in at a time, of one address `share` at most. Addresses take turns, one request each: one
// with many requests delays that of another by a turn.
type queue struct {
	mutex   sync.Mutex
	free    int
	share   int
	inside  map[string]int
	waiting map[string][]chan struct{} // address -> its requests, the first to come first
	turns   []string                   // the addresses that have any waiting
}

func newQueue(slots, share int) *queue {
	return &queue{free: slots, share: share, inside: map[string]int{}, waiting: map[string][]chan struct{}{}}
}

// enter returns when it is the turn of a request of `who`, who has to `leave` then; or why it does not come.
func (q *queue) enter(ctx context.Context, who string) error {
	let := make(chan struct{})
	q.mutex.Lock()
	if len(q.waiting[who]) == 0 {
		q.turns = append(q.turns, who)
	}
	q.waiting[who] = append(q.waiting[who], let)
	q.letIn()
	q.mutex.Unlock()
	select {
	case <-let:
		return nil
	case <-ctx.Done():
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	select {
	case <-let: // in this very moment
		q.letOut(who)
	default:
		q.giveUp(who, let)
	}
	return ctx.Err()
}

// leave frees the slot of a request of `who`.
func (q *queue) leave(who string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.letOut(who)
}

func (q *queue) letOut(who string) {
	q.free++
	if q.inside[who]--; q.inside[who] == 0 {
		delete(q.inside, who)
	}
	q.letIn()
}

// letIn lets in as many as there is room for.
func (q *queue) letIn() {
	for q.free > 0 {
		at := q.next()
		if at < 0 {
			return
		}
		who := q.turns[at]
		q.turns = append(q.turns[:at:at], q.turns[at+1:]...)
		requests := q.waiting[who]
		close(requests[0])
		q.free--
		q.inside[who]++
		if len(requests) > 1 {
			q.waiting[who] = requests[1:]
			q.turns = append(q.turns, who)
		} else {
			delete(q.waiting, who)
		}
	}
}

// next is the place of the first address in turn that has not got its share; -1 where none is.
func (q *queue) next() int {
	for at, who := range q.turns {
		if q.inside[who] < q.share {
			return at
		}
	}
	return -1
}

// giveUp takes a request out that waits.
func (q *queue) giveUp(who string, let chan struct{}) {
	requests := q.waiting[who]
	for at, other := range requests {
		if other == let {
			q.waiting[who] = append(requests[:at:at], requests[at+1:]...)
			break
		}
	}
	if len(q.waiting[who]) > 0 {
		return
	}
	delete(q.waiting, who)
	for at, other := range q.turns {
		if other == who {
			q.turns = append(q.turns[:at:at], q.turns[at+1:]...)
			break
		}
	}
}
