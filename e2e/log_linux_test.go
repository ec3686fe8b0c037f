package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// terminal is a new pseudo-terminal: what is written to its program's end comes out at the other, line by line.
func terminal(t *testing.T) (program *os.File, lines <-chan string) {
	t.Helper()
	own, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var unlock, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, own.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 10_000)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(own); s.Scan(); {
			out <- strings.TrimSpace(s.Text())
		}
	}()
	t.Cleanup(func() { _ = own.Close() })
	return program, out
}

// TestC6TheLogIsTextOnATerminal, and JSON where it is not, or where the configuration says so.
func TestC6TheLogIsTextOnATerminal(t *testing.T) {
	t.Parallel()
	for format, text := range map[string]bool{"": true, "auto": true, "text": true, "json": false} {
		tty, lines := terminal(t)
		o := gateway.Options{Config: quick, Stderr: tty}
		if format != "" {
			o.Config += "telemetry: {log_format: " + format + "}\n"
		}
		g := gateway.Run(t, o)
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		_ = tty.Close()
		n := 0
		for line := range lines {
			n++
			isJSON := json.Valid([]byte(line))
			if isJSON == text || text && (!strings.HasPrefix(line, "time=") || !strings.Contains(line, " level=INFO msg=")) {
				t.Errorf("log_format %q: %s", format, line)
			}
		}
		if n == 0 {
			t.Errorf("log_format %q: nothing was logged", format)
		}
	}
	if log := gateway.Run(t, gateway.Options{Config: quick}).Log(); !strings.Contains(log, `{"time":"`) {
		t.Errorf("into a pipe: %s", log)
	}
}

// TestC6ACleanStopWarnsOfNothing, after answers on both paths.
func TestC6ACleanStopWarnsOfNothing(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p}}})
	for _, stream := range []bool{false, true} {
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call()); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(g.Log()) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			t.Error(line)
		}
	}
}
