package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// waits waits until `count` requests are in the queue.
func waits(t *testing.T, q *queue, count int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		q.mutex.Lock()
		waiting := 0
		for _, line := range q.waiting {
			for _, requests := range line.requests {
				waiting += len(requests)
			}
		}
		q.mutex.Unlock()
		if waiting == count {
			return
		}
	}
	t.Fatalf("not %d requests wait", count)
}

func TestAddressesTakeTurns(t *testing.T) {
	q := newQueue(1, 1)
	first := caller{"first", ""}
	if err := q.enter(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	order := ""
	var all sync.WaitGroup
	for place, who := range []caller{{"a", "1"}, {"a", "1"}, {"a", "1"}, {"b", "1"}, {"a", "2"}, {"a", "3"}, {"c", ""}} {
		all.Go(func() {
			if err := q.enter(context.Background(), who); err != nil {
				t.Error(err)
			}
			order += who.address + who.namespace + " " // one is inside at a time
			q.leave(who)
		})
		waits(t, q, place+1)
	}
	q.leave(first)
	all.Wait()
	if order != "a1 b1 c a2 a3 a1 a1 " {
		t.Fatalf("the turns were %v", order)
	}
}

func TestAnAddressHasItsShareAndNoMore(t *testing.T) {
	q := newQueue(3, 2)
	for range 2 {
		if err := q.enter(context.Background(), caller{"a", ""}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := q.enter(ctx, caller{"a", "other"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a third one came in: %v", err)
	}
	if err := q.enter(context.Background(), caller{"b", ""}); err != nil {
		t.Fatal(err)
	}
}

func TestNoSlotIsLostAndNoneIsGivenTwice(t *testing.T) {
	const slots = 3
	q := newQueue(slots, 2)
	var inside, most atomic.Int64
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			who := caller{string(rune('a' + n%7)), string(rune('a' + n%3))}
			for range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(2_000))*time.Microsecond)
				if q.enter(ctx, who) == nil {
					if now := inside.Add(1); now > most.Load() {
						most.Store(now)
					}
					time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
					inside.Add(-1)
					q.leave(who)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if most.Load() > slots {
		t.Fatalf("%d were inside at a time", most.Load())
	}
	if q.free != slots || len(q.inside)+len(q.waiting)+len(q.turns) != 0 {
		t.Fatalf("left behind: %d free, %v inside, %v waiting, turns %v", q.free, q.inside, q.waiting, q.turns)
	}
}
