package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// port is an open client port. It hands its connections to the listener that
// owns it, and may change hands when the configuration does: two listeners can
// swap their ports without either being closed for a moment.
type port struct {
	net.Listener
	owner atomic.Pointer[taker]
	done  sync.WaitGroup
}

// taker is what connections are handed to; it must not block.
type taker interface{ take(net.Conn) }

// give makes t the owner of what is accepted from now on.
func (p *port) give(t taker) { p.owner.Store(&t) }

// acceptPause is how long accepting rests after a failure that may pass, such
// as too many open files.
const acceptPause = time.Second

// serve accepts until the port is closed.
func (p *port) serve(ctx context.Context, log *slog.Logger) {
	for {
		conn, err := p.Accept()
		switch {
		case err == nil:
			if t := p.owner.Load(); t != nil {
				(*t).take(conn)
			} else {
				conn.Close()
			}
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			log.Warn("a connection could not be accepted", "address", p.Addr().String(), "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// start accepts in the background until shut.
func (p *port) start(ctx context.Context, log *slog.Logger) {
	p.done.Go(func() { p.serve(ctx, log) })
}

// shut closes the port and waits until nothing accepts any more.
func (p *port) shut() {
	p.Close()
	p.done.Wait()
}

// portSet is the open ports by the address that the configuration gives.
type portSet map[string]*port

// shift opens what is wanted beyond what is open. It closes nothing that is
// wanted; what is not wanted any more it closes only when a new address needs
// its port number. After an error the set is as it was: what was closed is open
// again, and start is called for it.
func (s portSet) shift(network Network, wanted []string, start func(*port)) (opened portSet, err error) {
	opened = portSet{}
	keep := map[string]bool{}
	for _, address := range wanted {
		keep[address] = true
	}
	var failed []error
	var closed []string
	for _, address := range wanted {
		if s[address] != nil || opened[address] != nil {
			continue
		}
		l, err := network.Listen(address)
		for _, rival := range s.rivals(address, keep) {
			if err == nil {
				break
			}
			s[rival].shut()
			closed = append(closed, rival)
			// It has been in the way: not to be closed a second time.
			keep[rival] = true
			l, err = network.Listen(address)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		opened[address] = &port{Listener: l}
	}
	if failed == nil {
		for _, address := range closed {
			delete(s, address)
		}
		return opened, nil
	}
	for _, p := range opened {
		p.Close()
	}
	for _, address := range closed {
		if s[address].Listener, err = network.Listen(address); err != nil {
			failed = append(failed, fmt.Errorf("and the old port is lost: %w", err))
			delete(s, address)
			continue
		}
		start(s[address])
	}
	return nil, errors.Join(failed...)
}

// rivals are the open addresses with the same port number that nobody wants.
func (s portSet) rivals(address string, keep map[string]bool) (list []string) {
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	for open := range s {
		if _, n, err := net.SplitHostPort(open); err == nil && n == number && !keep[open] {
			list = append(list, open)
		}
	}
	return list
}
