package fleet

import (
	"os"
	"path/filepath"
	"testing"

	"flotilla/gateway/config"
)

// TestCanonicalABI is M18 branch by branch. The fleet has the archives x, y and
// z and the live nodes l and m.
func TestCanonicalABI(t *testing.T) {
	const x, y, z, l, m = 0, 1, 2, 3, 4
	up := func(w *world, i int, head uint32, abi string) {
		w.sendsABI(i, abi)
		if i < l {
			w.says(i, archived(1, head+1))
		} else {
			w.tells(i, head, head-10)
		}
	}
	file := func(text string) func(*config.Listener) {
		return func(c *config.Listener) { c.Stitching.ABI = text }
	}
	for name, tt := range map[string]struct {
		play        func(w *world)
		fingerprint string
		source      string
		provisional bool
	}{
		"nobody":                         {func(*world) {}, "", "", false},
		"an ABI of nobody who is online": {func(w *world) { w.sendsABI(l, "a"); w.sendsABI(x, "b") }, "", "", false},

		"abi_file": {func(w *world) {
			up(w, l, 100, "a")
			w.put(file(oldABI))
		}, fingerprintOf(oldABI), ABIFile, false},
		"abi_file is taken away": {func(w *world) {
			w.put(file(oldABI))
			up(w, l, 100, "a")
			w.put(file(""))
		}, "a", "l", false},
		"abi_file is taken away with nobody online": {func(w *world) {
			w.put(file(oldABI))
			w.put(file(""))
		}, fingerprintOf(oldABI), ABIFile, true},
		"another abi_file": {func(w *world) {
			w.put(file(oldABI))
			w.put(file(springABI))
		}, fingerprintOf(springABI), ABIFile, false},

		"the highest live node": {func(w *world) {
			up(w, x, 50, "c")
			w.tells(l, 100, 90)
			w.tells(m, 101, 90)
			w.sendsABI(m, "b")
			w.sendsABI(l, "a")
		}, "b", "m", false},
		"of equal heads the first": {func(w *world) {
			a, b := parsed(w, "a"), parsed(w, "b")
			w.do(func(o *owner) {
				o.upstreams[l].ABI, o.upstreams[m].ABI = a, b
				s := status(100, 90)
				o.status(m, &s)
				o.status(l, &s)
			})
		}, "a", "l", false},
		"it stays while a live node has it": {func(w *world) {
			up(w, l, 100, "a")
			up(w, m, 200, "b")
		}, "a", "l", false},
		"also another one than the first": {func(w *world) {
			up(w, l, 100, "a")
			up(w, m, 200, "a")
			w.loses(l)
			w.sendsABI(l, "b")
			w.tells(l, 300, 290)
		}, "a", "l", false},
		"it goes when no live node has it": {func(w *world) {
			up(w, l, 100, "a")
			up(w, m, 200, "b")
			w.loses(l)
		}, "b", "m", false},
		"or only one that is disabled": {func(w *world) {
			up(w, l, 100, "a")
			up(w, m, 200, "b")
			w.SetDisabled(l, true)
		}, "b", "m", false},
		"a stale node is as good as any": {func(w *world) {
			up(w, l, 100, "a")
			w.stale(l, true)
			up(w, m, 200, "b")
		}, "a", "l", false},
		"a node that is upgraded": {func(w *world) { up(w, l, 100, "a"); w.sendsABI(l, "b") }, "b", "l", false},
		"it stays while all live nodes are down, whatever archives have": {func(w *world) {
			up(w, l, 100, "a")
			up(w, x, 50, "b")
			w.loses(l)
		}, "a", "l", false},
		"it stays when its server is removed": {func(w *world) {
			up(w, l, 100, "a")
			up(w, x, 50, "b")
			w.put(func(c *config.Listener) { c.Servers = c.Servers[:l] })
		}, "a", "l", false},

		"an archive until then": {func(w *world) { up(w, x, 50, "a") }, "a", "x", true},
		"the most common of the archives": {func(w *world) {
			up(w, x, 50, "a")
			up(w, y, 50, "b")
			up(w, z, 50, "b")
		}, "b", "y", true},
		"the first of equally common ones": {func(w *world) { up(w, y, 50, "b"); up(w, x, 50, "a") }, "a", "x", true},
		"archives that are offline do not count": {func(w *world) {
			up(w, x, 50, "a")
			up(w, y, 50, "b")
			up(w, z, 50, "b")
			w.loses(y)
			w.loses(z)
		}, "a", "x", true},
		"it stays while all archives are down": {func(w *world) { up(w, x, 50, "a"); w.loses(x) }, "a", "x", true},
		"a live node replaces it":              {func(w *world) { up(w, x, 50, "a"); up(w, l, 100, "b") }, "b", "l", false},
		"a live node confirms it":              {func(w *world) { up(w, x, 50, "a"); up(w, l, 100, "a") }, "a", "l", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := silentSplit(t, declares("x", 0, 0), declares("y", 0, 0), declares("z", 0, 0), server("l"), server("m"))
			tt.play(w)
			v := w.View()
			fingerprint := ""
			if v.ABI != nil {
				fingerprint = v.ABI.Fingerprint
			}
			if fingerprint != tt.fingerprint || v.ABISource != tt.source || v.ABIProvisional != tt.provisional {
				t.Errorf("the ABI is %q of %q (provisional: %v), %q of %q (%v) was due",
					fingerprint, v.ABISource, v.ABIProvisional, tt.fingerprint, tt.source, tt.provisional)
			}
		})
	}
}

// TestCanonicalABIIsParsedOnce: views that follow share it.
func TestCanonicalABIIsParsedOnce(t *testing.T) {
	w := silentSplit(t, declares("x", 1, 51), server("l"))
	w.put(func(c *config.Listener) { c.Stitching.ABI = springABI })
	first := w.View().ABI
	w.tells(1, 100, 90)
	if first == nil || w.View().ABI != first {
		t.Error("the ABI of the configuration is parsed for each view")
	}
}

// TestPoolHasNoABIOfItsOwn, as its clients get that of the node they are at.
func TestPoolHasNoABIOfItsOwn(t *testing.T) {
	w := silent(t, func(c *config.Listener) { c.Stitching.ABI = springABI }, "a")
	w.sendsABI(0, "a")
	w.tells(0, 100, 90)
	if v := w.View(); v.ABI != nil || v.ABISource != "" || v.ABIMismatched(0) {
		t.Errorf("it is %v of %q", v.ABI, v.ABISource)
	}
}

// TestABIFileOfTheConfiguration goes all the way from the file.
func TestABIFileOfTheConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ship.abi")
	if err := os.WriteFile(path, []byte(springABI), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Parse("flotilla.hcl", []byte(`
listener "ship" "eos" {
  address  = "127.0.0.1:17000"
  chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"
  stitching { abi_file = "`+path+`" }
  server "z" {
    endpoint = "127.0.0.1:8080"
    role     = "frozen"
    range    = { begin = 1, end = 101 }
  }
}`))
	if err != nil {
		t.Fatal(err)
	}
	if v := NewView(cfg.Listeners[0], nil); v.ABI == nil || string(v.ABI.Text) != springABI || v.ABISource != ABIFile || v.ABIProvisional {
		t.Errorf("the ABI is %v of %q", v.ABI, v.ABISource)
	}
}
