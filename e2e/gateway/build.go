// Package gateway starts the real gateway for a test: the bardo program with its Envoy, on free ports, with its own
// state, against whatever providers the test runs. It knows the program by its commands, files and HTTP surface alone.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
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

// Programs are the paths of the bardo program and of its Envoy, for tests that start them by themselves.
func Programs(t testing.TB) (bardo, envoyProgram string) {
	t.Helper()
	bin, err := program(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	return bin, envoy(root)
}

func compile(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if build.dir, err = os.MkdirTemp("", "bardo-build"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	bin := filepath.Join(build.dir, "bardo")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/bardo")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building bardo: %w\n%s", err, out)
	}
	return bin, nil
}

// Root is the folder of the module.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// envoy is $ENVOY_BIN, or the one that make installs.
func envoy(root string) string {
	if bin := os.Getenv("ENVOY_BIN"); bin != "" {
		return bin
	}
	return filepath.Join(root, ".tools", "envoy", "envoy")
}
