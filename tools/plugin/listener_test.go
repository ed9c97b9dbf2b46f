package main

import (
	"net"
	"testing"
)

type stub struct {
	net.Conn
	closed bool
}

func (s *stub) Close() error {
	s.closed = true
	return nil
}

func TestTheAddressWithTheMostConnectionsLosesItsOldest(t *testing.T) {
	l := newLimited(nil, 3)
	connections := []*connection{}
	for _, who := range []string{"a", "a", "b", "c", "a", "b"} {
		connections = append(connections, &connection{Conn: &stub{}, who: who, of: l})
	}
	for at, want := range []bool{true, true, true, true} {
		if got := l.admit(connections[at]); got != want {
			t.Fatalf("%d: %v", at, got)
		}
	}
	if !connections[0].Conn.(*stub).closed || connections[1].Conn.(*stub).closed || connections[2].Conn.(*stub).closed {
		t.Fatal("not the oldest of a was closed")
	}
	if l.admit(connections[4]) {
		t.Fatal("a second one of a came in, where each has one")
	}
	connections[0].Close() // a second time, by who served it
	connections[1].Close()
	if l.count != 2 || !l.admit(connections[5]) || l.count != 3 || len(l.open) != 2 {
		t.Fatalf("%d connections of %d addresses", l.count, len(l.open))
	}
}

func TestOfIPv6AWholeNetworkCountsAsOne(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:1":             "10.0.0.1",
		"[::ffff:10.0.0.1]:1":    "10.0.0.1",
		"[fd00:1:2:3::4]:1":      "fd00:1:2:3::/64",
		"[fe80::1%eth0]:1":       "fe80::/64",
		"what is not an address": "what is not an address",
	} {
		if got := host(remote); got != want {
			t.Errorf("%s counts for %s", remote, got)
		}
	}
}
