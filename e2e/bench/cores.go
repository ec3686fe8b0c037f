package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
)

// cores is how many cores the gateway, its Envoy and the plain Envoy may use: the first ones. The load and the providers use the others, if there
// are any. 0: all of them use all cores.
type cores int

// list are the cores from one to before another, as taskset takes them.
func list(from, to int) string { return fmt.Sprintf("%d-%d", from, to-1) }

// command is a program that runs on these cores.
func (c cores) command(program string, args []string) (string, []string) {
	if c == 0 {
		return program, args
	}
	return "taskset", append([]string{"-c", list(0, int(c)), program}, args...)
}

// pin moves this process off the measured cores, and puts a script before the gateway that pins it to them.
func (l *lab) pin(ctx context.Context, _ string) error {
	n, all := int(l.cores), runtime.NumCPU()
	if n == 0 {
		return nil
	}
	if n > all {
		return fmt.Errorf("-cores %d: the machine has %d", n, all)
	}
	if n < all {
		c := exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", list(n, all), strconv.Itoa(os.Getpid()))
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("taskset: %w: %s", err, out)
		}
	}
	script := filepath.Join(l.dir, "bardo-pinned")
	text := fmt.Sprintf("#!/bin/sh\nexec taskset -c %s '%s' \"$@\"\n", list(0, n), os.Getenv("BARDO_BIN"))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		return err
	}
	return os.Setenv("BARDO_BIN", script)
}
