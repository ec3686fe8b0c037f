package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// process is a running process, as Linux shows it.
type process int

// envoyOf is the Envoy of a gateway: the child of its process.
func envoyOf(t testing.TB, g *gateway.Gateway) process {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		rest, ok := readStat(path)
		if f := strings.Fields(rest); ok && len(f) > 1 && f[1] == strconv.Itoa(g.PID()) && f[0] != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return process(pid)
		}
	}
	return 0
}

// dataPathOf is the process id of the program that serves requests.
func dataPathOf(t testing.TB, g *gateway.Gateway) int {
	t.Helper()
	if g.InEnvoy {
		return int(envoyOf(t, g))
	}
	return g.PID()
}

// readStat returns what a stat file says behind the command's name, which may hold anything.
func readStat(path string) (rest string, ok bool) {
	b, err := os.ReadFile(path)
	i := bytes.LastIndexByte(b, ')')
	if err != nil || i < 0 {
		return "", false
	}
	return string(b[i+1:]), true
}

// alive reports whether the process runs. One that nobody waited for is dead.
func (p process) alive() bool {
	rest, ok := readStat(fmt.Sprintf("/proc/%d/stat", p))
	return ok && !strings.HasPrefix(strings.TrimSpace(rest), "Z")
}

// memory is what the process has in RAM, in bytes.
func (p process) memory(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// descriptors is how many files and sockets the process has open.
func (p process) descriptors(t testing.TB) int {
	t.Helper()
	es, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(es)
}
