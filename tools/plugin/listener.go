package main

// This file limits the connections; of too many, the address with the most loses its oldest.

import (
	"net"
	"net/netip"
	"sync"
)

// limited is a listener with at most `most` open connections. If another one arrives, the address with the most
// connections loses its oldest one; if the new one is from that address, it is closed instead. So no address can keep
// another from its first connection.
type limited struct {
	net.Listener
	most int

	mutex sync.Mutex
	open  map[string][]*connection // oldest first
	count int
}

func newLimited(listener net.Listener, most int) *limited {
	return &limited{Listener: listener, most: most, open: map[string][]*connection{}}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		plain, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		accepted := &connection{Conn: plain, who: host(plain.RemoteAddr().String()), of: l}
		if l.admit(accepted) {
			return accepted, nil
		}
		plain.Close()
	}
}

// admit counts a new connection and, if there are too many, closes another one. It returns false if the new one has to
// be closed.
func (l *limited) admit(new *connection) bool {
	l.mutex.Lock()
	var victim *connection
	if l.count >= l.most {
		largest := new.who
		for who, connections := range l.open {
			if len(connections) > len(l.open[largest]) {
				largest = who
			}
		}
		if largest == new.who {
			l.mutex.Unlock()
			return false
		}
		victim = l.open[largest][0]
		l.forget(victim)
	}
	l.open[new.who] = append(l.open[new.who], new)
	l.count++
	l.mutex.Unlock()
	if victim != nil {
		victim.Conn.Close()
	}
	return true
}

// forget stops counting a connection, if it is counted. The caller holds the mutex.
func (l *limited) forget(old *connection) {
	connections := l.open[old.who]
	for at, other := range connections {
		if other == old {
			connections = append(connections[:at:at], connections[at+1:]...)
			l.count--
			break
		}
	}
	if l.open[old.who] = connections; len(connections) == 0 {
		delete(l.open, old.who)
	}
}

// connection is counted by its listener until it is closed.
type connection struct {
	net.Conn
	who string
	of  *limited
}

func (c *connection) Close() error {
	c.of.mutex.Lock()
	c.of.forget(c)
	c.of.mutex.Unlock()
	return c.Conn.Close()
}

// host is the client that a connection counts for: its IPv4 address, or the /64 network of its IPv6 address, because one
// machine may use all addresses of such a network.
func host(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	if who := address.Addr().Unmap(); who.Is4() {
		return who.String()
	}
	return netip.PrefixFrom(address.Addr().WithZone(""), 64).Masked().String()
}
