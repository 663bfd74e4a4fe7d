package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// asProgram makes the test binary the program itself, for tests that run it.
const asProgram = "FLOTILLA_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(execute(arguments(os.Args)))
	}
	os.Exit(m.Run())
}

// program is a command line of a text, run as it stands.
func program(ctx context.Context, t *testing.T, line string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, "sh", "-c", `flotilla() { exec "$0" "$@"; }; `+line, self)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

// section is a part of a page, from its title to the next one.
func section(t *testing.T, page, title string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", page, title)
	}
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

var (
	block   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	named   = regexp.MustCompile("`([a-z/-]+\\.(?:lua|hcl))`")
	numbers = regexp.MustCompile(`[0-9.]+(µs|ms|ns)?`)
)

// TestReadmeOnPolicies does what README's section on policies says, in an empty
// folder: each file is written, each command is run, and prints what the text
// says, numbers aside. Only the ports are others.
func TestReadmeOnPolicies(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	text := section(t, "../../README.md", "Choose servers your way")
	base := freeRun(t, 5)
	text = strings.NewReplacer(
		"127.0.0.1:9090", fmt.Sprint("127.0.0.1:", base), "127.0.0.1:17000", fmt.Sprint("127.0.0.1:", base+1),
		"127.0.0.1:18080", fmt.Sprint("127.0.0.1:", base+2), "127.0.0.1:18081", fmt.Sprint("127.0.0.1:", base+3),
		"flotilla sim &", fmt.Sprintf("flotilla sim --base-port %d &", base+2),
	).Replace(text)
	t.Chdir(t.TempDir())
	ran, at := 0, 0
	for _, m := range block.FindAllStringSubmatchIndex(text, -1) {
		language, body := text[m[2]:m[3]], text[m[4]:m[5]]
		if language != "" {
			names := named.FindAllStringSubmatch(text[at:m[0]], -1)
			if len(names) == 0 {
				t.Fatalf("nothing says which file this is:\n%s", body)
			}
			name := names[len(names)-1][1]
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			at = m[1]
			continue
		}
		for _, part := range strings.Split(body, "$ ")[1:] {
			line, says, _ := strings.Cut(part, "\n")
			ran++
			if background, ok := strings.CutSuffix(line, " &"); ok {
				c := program(ctx, t, background)
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cancel(); _ = c.Wait() })
				continue
			}
			prints(ctx, t, line, says)
		}
	}
	if ran < 5 {
		t.Errorf("the section has %d commands", ran)
	}
}

// prints runs a command until it prints what is said: what runs in the
// background needs a moment.
func prints(ctx context.Context, t *testing.T, line, says string) {
	t.Helper()
	want := numbers.ReplaceAllString(says, "N")
	for {
		out, err := program(ctx, t, line).CombinedOutput()
		if got := numbers.ReplaceAllString(string(out), "N"); got == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s prints, %v,\n%s\nand the text says\n%s", line, err, out, says)
		case <-time.After(50 * time.Millisecond):
		}
		if strings.Contains(line, "policy test") {
			t.Fatalf("%s prints, %v,\n%s\nand the text says\n%s", line, err, out, says)
		}
	}
}

// freeRun is the first of so many ports in a row that were free a moment ago,
// below those that the system gives to clients.
func freeRun(t *testing.T, count int) int {
	t.Helper()
	for base := 20000 + os.Getpid()%5000; base < 32000; base += count {
		free := 0
		for ; free < count; free++ {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", base+free))
			if err != nil {
				break
			}
			l.Close()
		}
		if free == count {
			return base
		}
	}
	t.Fatal("there are no free ports")
	return 0
}
