// Package gateway starts the real gateway for a test: the bardo program with its Envoy, on free ports, with its own
// state, against whatever providers the test runs. It knows the program by its commands, files and HTTP surface alone.
package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/proctest"
)

// build is the program that every gateway of a test run starts: $BARDO_BIN, or one build of the tree.
var build struct {
	once sync.Once
	dir  string
	bin  string
	err  error
}

// Main runs a package's tests and removes what they built. Call it from TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
	return code
}

func program(ctx context.Context) (string, error) {
	build.once.Do(func() {
		if build.bin = os.Getenv("BARDO_BIN"); build.bin != "" {
			return
		}
		build.bin, build.err = compile(ctx)
	})
	return build.bin, build.err
}

func (o Options) program(ctx context.Context) (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	return program(ctx)
}

// Programs are the paths of the bardo program and of its Envoy, for tests that start them by themselves.
func Programs(t testing.TB) (bardo, envoyProgram string) {
	t.Helper()
	bin, err := program(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	envoy, err := envoytest.Path()
	if err != nil {
		t.Fatal(err)
	}
	return bin, envoy
}

func compile(ctx context.Context) (string, error) {
	root, err := proctest.Root()
	if err != nil {
		return "", err
	}
	if build.dir, err = os.MkdirTemp("", "bardo-build"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	bin := filepath.Join(build.dir, "bardo")
	for _, args := range [][]string{
		{"-o", bin, "./cmd/bardo"},
		{"-buildmode=c-shared", "-o", filepath.Join(build.dir, "libbardo.so"), "./cmd/bardo/libbardo"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building bardo: %w\n%s", err, out)
		}
	}
	return bin, nil
}
