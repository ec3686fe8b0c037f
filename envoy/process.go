package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"bardo.money/gateway/internal/timerslack"
)

// Command configures how an Envoy is run. Zero fields mean the defaults beside them.
type Command struct {
	Path        string        // the binary
	Dir         string        // private directory for the bootstrap file and the admin socket; must exist
	Bootstrap   Options       // AdminSocket may be empty: it is then inside Dir
	Concurrency int           // worker threads; 0 means one per core
	LogLevel    string        // of Envoy itself: "warning"
	Env         []string      // additional environment variables, NAME=value
	Files       []*os.File    // open files that it inherits, from file descriptor 3 on
	DrainTime   time.Duration // how long listeners drain: 30 s
	StopTime    time.Duration // after SIGTERM until SIGKILL: 5 s
	Log         *slog.Logger  // nil: slog.Default()
}

// Process is a supervised Envoy: it is restarted when it dies, and is killed when this program dies.
type Process struct {
	Admin
	cmd      Command
	config   string
	restarts atomic.Int64
	pid      atomic.Int64
}

// NewProcess writes the bootstrap file. It starts nothing before Run.
func NewProcess(c Command) (*Process, error) {
	c.Bootstrap.AdminSocket = cmp.Or(c.Bootstrap.AdminSocket, filepath.Join(c.Dir, "envoy.sock"))
	c.Bootstrap.MaxConnections = cmp.Or(c.Bootstrap.MaxConnections, Connections())
	c.Concurrency = cmp.Or(c.Concurrency, runtime.NumCPU())
	c.LogLevel = cmp.Or(c.LogLevel, "warning")
	c.DrainTime = cmp.Or(c.DrainTime, 30*time.Second)
	c.StopTime = cmp.Or(c.StopTime, 5*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	config, err := Bootstrap(c.Bootstrap)
	if err != nil {
		return nil, err
	}
	p := &Process{Admin: NewAdmin(c.Bootstrap.AdminSocket), cmd: c, config: filepath.Join(c.Dir, "envoy.json")}
	if err := os.WriteFile(p.config, config, 0o600); err != nil {
		return nil, fmt.Errorf("envoy bootstrap: %w", err)
	}
	return p, nil
}

// Restarts returns how often Envoy was restarted.
func (p *Process) Restarts() int64 { return p.restarts.Load() }

// PID returns the running Envoy's process id, or 0.
func (p *Process) PID() int { return int(p.pid.Load()) }

const (
	firstPause      = 100 * time.Millisecond
	longPause       = 10 * time.Second
	stable          = time.Minute // an Envoy that ran this long restarts after the first pause
	maxFailedStarts = 5
)

// Run keeps an Envoy running until ctx is done, then stops it and returns nil. It returns an error only if Envoy cannot be started at all, or if none
// of the first ones was ever ready. Call it once; it blocks.
func (p *Process) Run(ctx context.Context) error {
	// The kernel kills the child when the thread that forked it ends, so that thread has to live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ready, stopWatching := p.watchReady(ctx)
	defer stopWatching()
	var s starts
	for {
		began := time.Now()
		err := p.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errNotStarted) {
			return err
		}
		p.restarts.Add(1)
		if err == nil {
			err = errors.New("exit status 0")
		}
		pause, again := s.ended(time.Since(began), ready.Load())
		if !again {
			return fmt.Errorf("%w: %s ended %d times before it was ready: %w: `bardo doctor` looks at it", errNotStarted, p.cmd.Path, maxFailedStarts, err)
		}
		p.cmd.Log.Error("envoy died and is started again", "error", err, "pause", pause.String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// watchReady reports whether any Envoy of this Run was ready yet. The caller calls stop, which waits for the watch to end.
func (p *Process) watchReady(ctx context.Context) (ready *atomic.Bool, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ready = new(atomic.Bool)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ready.Store(p.Ready(ctx) == nil)
	}()
	return ready, func() {
		cancel()
		<-done
	}
}

// starts decides when a terminated Envoy is restarted. The zero value has seen none.
type starts struct {
	pause  time.Duration // before the last start
	failed int           // consecutive ones that ended before any worked
	worked bool          // one was ready, or ran long enough: later exits are not the fault of the binary or of the bootstrap file
}

// ended records that an Envoy exited after a time; ready means that it, or one before it, was ready. again is false when maxFailedStarts exited and
// none was ready. How long each ran does not count, because a busy machine starts a process that cannot run as slowly as any other.
func (s *starts) ended(ran time.Duration, ready bool) (pause time.Duration, again bool) {
	s.worked = s.worked || ready || ran > stable
	if s.worked {
		s.failed = 0
	} else {
		s.failed++
	}
	if s.pause = min(2*s.pause, longPause); s.pause == 0 || ran > stable {
		s.pause = firstPause
	}
	return s.pause, s.failed < maxFailedStarts
}

var errNotStarted = errors.New("envoy could not be started")

// once runs one Envoy until it exits.
func (p *Process) once(ctx context.Context) error {
	logs := &lineWriter{log: p.cmd.Log, stop: ctx}
	defer logs.flush()
	//nolint:gosec,noctx // the operator names the binary; it is stopped by signals, not killed with the context
	c := exec.Command(p.cmd.Path,
		"--config-path", p.config,
		"--concurrency", strconv.Itoa(p.cmd.Concurrency),
		"--disable-hot-restart",
		"--drain-time-s", strconv.Itoa(int(p.cmd.DrainTime.Seconds())),
		"--drain-strategy", "immediate",
		"--log-level", p.cmd.LogLevel,
		"--log-format", logFormat,
	)
	c.Stdout, c.Stderr = logs, logs
	c.ExtraFiles = p.cmd.Files
	if len(p.cmd.Env) > 0 {
		c.Env = append(c.Environ(), p.cmd.Env...)
	}
	c.WaitDelay = time.Second
	c.SysProcAttr = ownGroup()
	if err := timerslack.Start(c.Start); err != nil {
		return errors.Join(errNotStarted, err)
	}
	p.pid.Store(int64(c.Process.Pid))
	defer p.pid.Store(0)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return p.stop(c.Process, ended)
	}
}

func (p *Process) stop(child *os.Process, ended <-chan error) error {
	_ = child.Signal(syscall.SIGTERM) // it may have exited already
	select {
	case err := <-ended:
		return err
	case <-time.After(p.cmd.StopTime):
		_ = child.Kill()
		return <-ended
	}
}
