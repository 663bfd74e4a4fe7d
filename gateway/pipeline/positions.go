package pipeline

import (
	"sort"

	"flotilla/gateway/ship"
)

// MaxPositions is how many delivered blocks a session remembers (S16).
const MaxPositions = 4096

// Positions are the delivered blocks that a session remembers, by ascending
// number: a ring, so that a stream that moves on allocates nothing. The zero
// value is empty.
type Positions struct {
	ring  []ship.Pos
	first int
	n     int
}

// Len is how many are remembered.
func (p *Positions) Len() int { return p.n }

// At is the i-th, from the lowest number on.
func (p *Positions) At(i int) *ship.Pos { return &p.ring[(p.first+i)&(len(p.ring)-1)] }

// Last is the newest, nil when there is none.
func (p *Positions) Last() *ship.Pos {
	if p.n == 0 {
		return nil
	}
	return p.At(p.n - 1)
}

// search is the index of the first whose number is n or more.
func (p *Positions) search(n uint32) int {
	if last := p.Last(); last == nil || last.Num < n {
		return p.n
	}
	return sort.Search(p.n, func(i int) bool { return p.At(i).Num >= n })
}

// Find is the position of block n, nil when it is not remembered.
func (p *Positions) Find(n uint32) *ship.Pos {
	if i := p.search(n); i < p.n && p.At(i).Num == n {
		return p.At(i)
	}
	return nil
}

// Forget drops the numbers from n on.
func (p *Positions) Forget(n uint32) { p.n = p.search(n) }

// Add remembers a block; numbers from its own on are forgotten first. Beyond
// MaxPositions the oldest goes.
func (p *Positions) Add(pos *ship.Pos) {
	p.Forget(pos.Num)
	if p.n == len(p.ring) {
		if p.n == MaxPositions {
			p.drop(1)
		} else {
			p.grow()
		}
	}
	p.n++
	p.At(p.n - 1).Set(pos)
}

// MakeRoom allocates, if need be, what the first few blocks take, so that it is
// not done while one of them is passed on.
func (p *Positions) MakeRoom() {
	if p.ring == nil {
		p.grow()
	}
}

// Settle drops the blocks below lib, but never the newest one: what is at lib
// tells a branch that is dead from the one that the client is on.
func (p *Positions) Settle(lib uint32) {
	k := 0
	for k < p.n-1 && p.At(k).Num < lib {
		k++
	}
	p.drop(k)
}

func (p *Positions) drop(k int) {
	if k > 0 {
		p.first = (p.first + k) & (len(p.ring) - 1)
		p.n -= k
	}
}

// grow doubles the ring, whose size stays a power of two.
func (p *Positions) grow() {
	ring := make([]ship.Pos, max(2*len(p.ring), 4))
	for i := range p.n {
		ring[i] = *p.At(i)
	}
	p.ring, p.first = ring, 0
}
