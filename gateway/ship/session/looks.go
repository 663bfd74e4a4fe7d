package session

import "time"

// LookInterval is how long a listener waits at least between two looks at its
// sessions.
const LookInterval = 100 * time.Millisecond

const (
	// maxRest is about how long a session is left alone at most: what becomes due
	// by a change that nobody announces is found so late.
	maxRest = time.Second
	// slot is what such looks are rounded to, so that thousands of quiet sessions
	// wake the process a few times in a second and not all the time.
	slot = maxRest / 4
)

// Looks is when the sessions of a listener are looked at: a clock that they
// share, and a way to be looked at soon.
type Looks struct {
	began time.Time
	// Wanted has a value when a session wants to be looked at soon.
	Wanted chan struct{}
}

// NewLooks starts the clock.
func NewLooks() *Looks { return &Looks{began: time.Now(), Wanted: make(chan struct{}, 1)} }

func (l *Looks) wake() {
	select {
	case l.Wanted <- struct{}{}:
	default:
	}
}

func (l *Looks) age(t time.Time) time.Duration { return t.Sub(l.began) }

func (l *Looks) at(age time.Duration) time.Time { return l.began.Add(age) }

// rest is when to look at a session again with which nothing is due before.
func (l *Looks) rest(now time.Time) time.Time { return l.at((l.age(now) + maxRest).Truncate(slot)) }
