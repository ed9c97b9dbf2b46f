package main

import (
	"net"
	"net/netip"
	"sync"
)

// limited has no more than `most` connections open. Beyond, the address with the most of them loses its oldest one, or
// does not get the new one: so one address cannot keep another from its first.
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

// admit counts a connection, and closes another for it where there are too many; false where it has to go itself.
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

// forget counts a connection no more; one that is not counted is left. The mutex is held.
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

// connection is one that is counted until it is closed.
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

// host is whom a connection counts for: its address, or with IPv6 its /64, of which one machine may have all.
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
