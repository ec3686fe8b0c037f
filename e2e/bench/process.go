package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// process is one whose use of the machine is measured.
type process struct {
	pid   int
	envoy bool // or the gateway's Go program
}

// cpu is processor time spent, by kind of process.
type cpu struct{ envoy, program time.Duration }

// tick is the unit of /proc/PID/stat on Linux, whatever the kernel's own.
const tick = 10 * time.Millisecond

func usage(ps []process) (cpu, error) {
	var out cpu
	for _, p := range ps {
		d, err := cpuTime(p.pid)
		if err != nil {
			return cpu{}, err
		}
		if p.envoy {
			out.envoy += d
			continue
		}
		out.program += d
	}
	return out, nil
}

// cpuTime is what a process has spent in user and kernel mode, all threads together.
func cpuTime(pid int) (time.Duration, error) {
	f, err := stat(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: times %q and %q", pid, f[11], f[12])
	}
	return time.Duration(user+system) * tick, nil
}

// stat are the fields of /proc/PID/stat after the name, which may have spaces: the state, the parent, and so on.
func stat(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	return f, nil
}

// child is the process that pid started.
func child(pid int) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if f, err := stat(id); err == nil && f[1] == strconv.Itoa(pid) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("process %d has no child", pid)
}

// megabytes is a process's memory in MB of 10^6 bytes: all of it, and without the pages of files, such as its program's, which the kernel maps together with
// those around them and takes back when it needs them.
type megabytes struct{ All, Own float64 }

// String is the memory as a cell of a table.
func (m megabytes) String() string { return fmt.Sprintf("%.0f (%.0f)", m.All, m.Own) }

func megabytesOf(pid int) megabytes {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return megabytes{}
	}
	read := func(name string) float64 {
		_, rest, _ := strings.Cut(string(b), name+":")
		kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, _ := strconv.ParseFloat(kib, 64)
		return n * 1024 / 1e6
	}
	return megabytes{All: read("VmRSS"), Own: read("RssAnon")}
}

func residentMB(pid int) float64 { return megabytesOf(pid).All }

// machine is where a run took place.
type machine struct {
	CPU    string
	Cores  int
	Kernel string
	Go     string
	Envoy  string
	Commit string
}

func describe(ctx context.Context, envoyBin string) machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(b), "model name")
		line, _, _ := strings.Cut(rest, "\n")
		m.CPU = strings.Trim(line, " \t:")
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	m.Commit = output(ctx, "git", "describe", "--always", "--dirty")
	_, version, _ := strings.Cut(output(ctx, envoyBin, "--version"), "version: ") // hash/1.2.3/…
	if parts := strings.Split(version, "/"); len(parts) > 1 {
		m.Envoy = parts[1]
	}
	return m
}

// output is what a command prints, or nothing.
func output(ctx context.Context, name string, args ...string) string {
	b, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
