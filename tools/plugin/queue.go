package main

// This file gives turns: each address has its share, and addresses take turns.

import (
	"context"
	"slices"
	"sync"
)

// caller is the client that a request counts for: the address that it comes from, and the namespace that it is about.
type caller struct{ address, namespace string }

// queue admits `slots` requests at a time, at most `share` of one address. Addresses take turns, one request each, and
// so do the namespaces of an address. So a caller with many requests delays another only by a turn.
type queue struct {
	mutex   sync.Mutex
	free    int
	share   int
	inside  map[string]int // address -> the number of its requests that were admitted
	waiting map[string]*line
	turns   []string // the addresses with waiting requests
}

// line holds the waiting requests of an address.
type line struct {
	requests map[string][]chan struct{} // namespace -> its requests, the oldest first
	turns    []string                   // the namespaces with waiting requests
}

func newQueue(slots, share int) *queue {
	return &queue{free: slots, share: share, inside: map[string]int{}, waiting: map[string]*line{}}
}

// enter waits for the turn of a request, which must call `leave` afterwards. It returns an error if the context ends
// before.
func (q *queue) enter(ctx context.Context, who caller) error {
	admitted := make(chan struct{})
	q.mutex.Lock()
	q.add(who, admitted)
	q.letIn()
	q.mutex.Unlock()
	select {
	case <-admitted:
		return nil
	case <-ctx.Done():
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	select {
	case <-admitted: // at the same moment
		q.letOut(who)
	default:
		q.remove(who, slices.Index(q.waiting[who.address].requests[who.namespace], admitted))
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

// letIn admits as many waiting requests as there are free slots.
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
		// Both go to the end of their turns. `remove` drops them if they have no waiting requests left.
		q.turns = append(slices.Delete(q.turns, at, at+1), address)
		line.turns = append(line.turns[1:], who.namespace)
		q.remove(who, 0)
	}
}

func (q *queue) add(who caller, admitted chan struct{}) {
	if q.waiting[who.address] == nil {
		q.waiting[who.address] = &line{requests: map[string][]chan struct{}{}}
		q.turns = append(q.turns, who.address)
	}
	line := q.waiting[who.address]
	if len(line.requests[who.namespace]) == 0 {
		line.turns = append(line.turns, who.namespace)
	}
	line.requests[who.namespace] = append(line.requests[who.namespace], admitted)
}

// remove drops a waiting request, and its namespace and address if they have none left.
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
