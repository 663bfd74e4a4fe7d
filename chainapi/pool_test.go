package chainapi

import (
	"bufio"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{}
		count := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.idle)
		}
		var closed atomic.Int64
		for range 50 {
			near, far := net.Pipe()
			c.put(&wire{Conn: near, in: bufio.NewReader(near)})
			go func() {
				if _, err := far.Read(make([]byte, 1)); err != nil {
					closed.Add(1)
				}
			}()
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{50 * time.Millisecond, 50}, {60 * time.Millisecond, 32}, {4 * time.Second, 32}, {time.Second, 0}} {
			time.Sleep(step.after)
			if n := count(); n != step.want {
				t.Errorf("%v later there are %d", step.after, n)
			}
		}
		if n := closed.Load(); n != 50 {
			t.Errorf("%d were closed", n)
		}
		// One that is used all the time is not old.
		near, _ := net.Pipe()
		c.put(&wire{Conn: near, in: bufio.NewReader(near)})
		for range 10 {
			time.Sleep(3 * time.Second)
			w := c.get()
			if w == nil {
				t.Fatal("it is gone")
			}
			c.put(w)
		}
		c.close()
		if n := count(); n != 0 {
			t.Errorf("%d are left after the end", n)
		}
	})
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s slots
		s.setLimit(2)
		if !s.take() || s.full() || !s.take() || !s.full() || s.take() {
			t.Fatal("two slots are not two")
		}
		if from := time.Now(); s.wait(time.Second) || time.Since(from) != time.Second {
			t.Error("a wait in vain is not as long as the patience")
		}
		if s.wait(0) || s.wait(-time.Second) {
			t.Error("a slot was had without patience")
		}
		came := make(chan int, 3)
		for i := range 3 {
			go func() {
				if s.wait(time.Minute) {
					came <- i
				}
			}()
			synctest.Wait()
		}
		s.release()
		synctest.Wait()
		if s.take() {
			t.Error("a newcomer got ahead of those that wait")
		}
		s.setLimit(3)
		synctest.Wait()
		s.release()
		synctest.Wait()
		for want := range 3 {
			if i := <-came; i != want {
				t.Errorf("number %d came instead of %d", i, want)
			}
		}
		if n := s.used(); n != 3 {
			t.Errorf("%d slots are taken", n)
		}
		s.setLimit(0)
		for range 3 {
			s.release()
		}
		if !s.take() || s.take() {
			t.Error("with the limit 0 there is not one slot")
		}
	})
}
