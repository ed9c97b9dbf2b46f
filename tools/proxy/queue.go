package main

import (
	"context"
	"slices"
	"sync"
)

// caller is for whom a request counts: the address that it comes from, and the namespace that it is about.
type caller struct{ address, namespace string }

// queue lets `slots` requests in at a time, of one address `share` at most. Addresses take turns, one request each, and
// so do the namespaces of an address: one with many requests delays that of another by a turn.
type queue struct {
	mutex   sync.Mutex
	free    int
	share   int
	inside  map[string]int // address -> its requests
	waiting map[string]*line
	turns   []string // the addresses that have any waiting
}

// line is the requests of an address that wait.
type line struct {
	requests map[string][]chan struct{} // namespace -> its requests, the first to come first
	turns    []string                   // the namespaces that have any
}

func newQueue(slots, share int) *queue {
	return &queue{free: slots, share: share, inside: map[string]int{}, waiting: map[string]*line{}}
}

// enter returns when it is the turn of a request, which has to `leave` then; or why it does not come.
func (q *queue) enter(ctx context.Context, who caller) error {
	let := make(chan struct{})
	q.mutex.Lock()
	q.add(who, let)
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
		q.remove(who, slices.Index(q.waiting[who.address].requests[who.namespace], let))
	}
	return ctx.Err()
}

// leave frees the slot of a request.
func (q *queue) leave(who caller) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.letOut(who)
}

func (q *queue) letOut(who caller) {
	q.free++
	if q.inside[who.address]--; q.inside[who.address] == 0 {
		delete(q.inside, who.address)
	}
	q.letIn()
}

// letIn lets in as many as there is room for.
func (q *queue) letIn() {
	for q.free > 0 {
		at := slices.IndexFunc(q.turns, func(address string) bool { return q.inside[address] < q.share })
		if at < 0 {
			return
		}
		address := q.turns[at]
		line := q.waiting[address]
		who := caller{address, line.turns[0]}
		close(line.requests[who.namespace][0])
		q.free--
		q.inside[address]++
		// Both go to the end, where any are left.
		q.turns = append(slices.Delete(q.turns, at, at+1), address)
		line.turns = append(line.turns[1:], who.namespace)
		q.remove(who, 0)
	}
}

func (q *queue) add(who caller, let chan struct{}) {
	if q.waiting[who.address] == nil {
		q.waiting[who.address] = &line{requests: map[string][]chan struct{}{}}
		q.turns = append(q.turns, who.address)
	}
	line := q.waiting[who.address]
	if len(line.requests[who.namespace]) == 0 {
		line.turns = append(line.turns, who.namespace)
	}
	line.requests[who.namespace] = append(line.requests[who.namespace], let)
}

// remove takes out a request that waits, and whoever has none left.
func (q *queue) remove(who caller, at int) {
	line := q.waiting[who.address]
	if left := slices.Delete(line.requests[who.namespace], at, at+1); len(left) > 0 {
		line.requests[who.namespace] = left
		return
	}
	delete(line.requests, who.namespace)
	line.turns = slices.DeleteFunc(line.turns, func(namespace string) bool { return namespace == who.namespace })
	if len(line.turns) == 0 {
		delete(q.waiting, who.address)
		q.turns = slices.DeleteFunc(q.turns, func(address string) bool { return address == who.address })
	}
}
