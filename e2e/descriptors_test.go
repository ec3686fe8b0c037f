package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestClientsBeyondTheOpenFilesAreTurnedAway at once: what the gateway has begun it can finish, and when they have left it serves as before.
func TestClientsBeyondTheOpenFilesAreTurnedAway(t *testing.T) {
	t.Parallel()
	const files, room, clients = 700, (700 - 200) / 3, 300
	bardo, _ := gateway.Programs(t)
	script := filepath.Join(t.TempDir(), "bardo")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %q \"$@\"\n", files, bardo), 0o700); err != nil {
		t.Fatal(err)
	}
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Tokens: 40, Gap: 50 * time.Millisecond})
	g := gateway.Run(t, gateway.Options{Program: script, Config: patient, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("alone", "")}}})
	var (
		whole, refused atomic.Int32
		all            sync.WaitGroup
	)
	for range clients {
		all.Go(func() {
			switch err := readWhole(t.Context(), g, ask{dialect: fake.OpenAI, model: "alone", stream: true}, "tok39 "); {
			case err == nil:
				whole.Add(1)
			case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), strings.Contains(err.Error(), "server closed idle connection"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if whole.Load() != room || refused.Load() != clients-room {
		t.Errorf("%d whole streams, %d clients refused, want %d and %d", whole.Load(), refused.Load(), room, clients-room)
	}
	p.Behave(fake.Behaviour{Tokens: 3})
	for range 20 {
		if err := readWhole(t.Context(), g, ask{dialect: fake.OpenAI, model: "alone", stream: true}, "tok2"); err != nil {
			t.Error(err)
		}
	}
}
