package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Session is a loaded model. Run is called from one goroutine at a time. It takes rows of tokens of one length, concatenated in ids, with a mask that
// is 1 for a token and 0 for padding, and returns the concatenated output rows.
type Session interface {
	Run(rows int, ids, mask []int64) ([]float32, error)
	Close() error
}

// Meter counts the work of pools. Safe for concurrent use.
type Meter interface {
	ModelQueued(model string, waiting int)
	ModelRan(model string, inputs int, took time.Duration)
	ModelWaited(model string, wait time.Duration)
	ModelRefused(model, reason string)
}

// Errors of a pool.
var (
	ErrBusy   = errors.New("too many texts wait for the model")
	ErrClosed = errors.New("the model is closed")
)

// PoolOptions configure a pool.
type PoolOptions struct {
	Sessions int // models in memory, with one thread each; zero means 1
	Queue    int // inputs that may be queued; zero means 64
	Batch    int // maximum inputs of one run; zero means 8
	Meter    Meter
}

// maxRunTokens limits the memory of a run, which a session keeps: on one thread, a run of one long input is no slower per input than one of several.
const maxRunTokens = 512

// Pool runs a model for inputs of several goroutines. Inputs are queued for a session; queued ones of the same length are run together. Inputs of
// different lengths never are: padding would change the result of a quantised model. Safe for concurrent use.
type Pool struct {
	model string
	width int // of the output
	o     PoolOptions

	mu      sync.Mutex
	wake    sync.Cond // waiting or closed has changed
	waiting []*job    // oldest first
	closed  bool
	workers sync.WaitGroup
	failed  error // of closing the sessions
}

// job is one input.
type job struct {
	ids    []int64
	queued time.Time
	done   chan struct{} // closed when out and err are set
	out    []float32
	err    error
}

// NewPool returns a pool of sessions from open, for a model with an output of width values. It opens the sessions, and runs each once, before it
// returns. The caller closes the pool.
func NewPool(model string, width int, o PoolOptions, open func() (Session, error)) (*Pool, error) {
	o.Sessions, o.Queue, o.Batch = orElse(o.Sessions, 1), orElse(o.Queue, 64), orElse(o.Batch, 8)
	p := &Pool{model: model, width: width, o: o}
	p.wake.L = &p.mu
	var sessions []Session
	for range o.Sessions {
		s, err := open()
		if err == nil {
			sessions = append(sessions, s)
			err = p.warmUp(s)
		}
		if err != nil {
			for _, s := range sessions {
				err = errors.Join(err, s.Close())
			}
			return nil, fmt.Errorf("model %s: %w", model, err)
		}
	}
	for _, s := range sessions {
		p.workers.Go(func() { p.work(s) })
	}
	return p, nil
}

func orElse(n, usual int) int {
	if n > 0 {
		return n
	}
	return usual
}

// warmUp runs a session once: the first run allocates, and shows whether the model's size is right.
func (p *Pool) warmUp(s Session) error {
	_, err := p.run(s, []*job{{ids: []int64{0, 0, 0}}})
	return err
}

// Do returns the model's output for one input. Its errors wrap ErrBusy if the queue is full, ctx's error if it is done first, and ErrClosed. The
// caller owns the output.
func (p *Pool) Do(ctx context.Context, ids []int64) ([]float32, error) {
	j := &job{ids: ids, queued: time.Now(), done: make(chan struct{})}
	if err := p.enqueue(ctx, j); err != nil {
		return nil, fmt.Errorf("model %s: %w", p.model, err)
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if p.withdraw(j) {
			p.o.Meter.ModelRefused(p.model, "deadline")
		}
		return nil, fmt.Errorf("model %s: %w", p.model, ctx.Err())
	}
	return j.out, j.err
}

func (p *Pool) enqueue(ctx context.Context, j *job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		p.o.Meter.ModelRefused(p.model, "deadline")
		return ctx.Err()
	case p.closed:
		return ErrClosed
	case len(p.waiting) >= p.o.Queue:
		p.o.Meter.ModelRefused(p.model, "full")
		return ErrBusy
	}
	p.waiting = append(p.waiting, j)
	p.o.Meter.ModelQueued(p.model, len(p.waiting))
	p.wake.Signal()
	return nil
}

// withdraw removes a job from the queue, if it is still queued.
func (p *Pool) withdraw(j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, j)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.o.Meter.ModelQueued(p.model, len(p.waiting))
	return true
}

// work runs jobs on a session until the pool is closed.
func (p *Pool) work(s Session) {
	for {
		jobs := p.take()
		if jobs == nil {
			break
		}
		begin := time.Now()
		for _, j := range jobs {
			p.o.Meter.ModelWaited(p.model, begin.Sub(j.queued))
		}
		out, err := p.run(s, jobs)
		p.o.Meter.ModelRan(p.model, len(jobs), time.Since(begin))
		for i, j := range jobs {
			if j.err = err; err == nil {
				j.out = slices.Clone(out[i*len(out)/len(jobs) : (i+1)*len(out)/len(jobs)])
			}
			close(j.done)
		}
	}
	err := s.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
}

// take waits for jobs, and takes the oldest with those of its length; nil once the pool is closed.
func (p *Pool) take() []*job {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) == 0 && !p.closed {
		p.wake.Wait()
	}
	if p.closed {
		return nil
	}
	var jobs []*job
	length := len(p.waiting[0].ids)
	most := max(1, min(p.o.Batch, maxRunTokens/max(1, length)))
	p.waiting = slices.DeleteFunc(p.waiting, func(j *job) bool {
		if len(j.ids) != length || len(jobs) == most {
			return false
		}
		jobs = append(jobs, j)
		return true
	})
	p.o.Meter.ModelQueued(p.model, len(p.waiting))
	if len(p.waiting) > 0 {
		p.wake.Signal() // for another session
	}
	return jobs
}

// run runs a session on inputs of one length. A panic becomes an error of these inputs.
func (p *Pool) run(s Session, jobs []*job) (out []float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("model %s: panic: %v", p.model, r)
		}
	}()
	length := len(jobs[0].ids)
	ids := make([]int64, 0, length*len(jobs))
	for _, j := range jobs {
		ids = append(ids, j.ids...)
	}
	mask := slices.Repeat([]int64{1}, len(ids))
	if out, err = s.Run(len(jobs), ids, mask); err != nil {
		return nil, fmt.Errorf("model %s: %w", p.model, err)
	}
	per := len(out) / len(jobs)
	if len(out) == 0 || len(out)%len(jobs) != 0 || per != p.width && per != p.width*length {
		return nil, fmt.Errorf("model %s: its output has %d values for %d inputs of %d tokens, expected %d each", p.model, len(out), len(jobs), length, p.width)
	}
	return out, nil
}

// Close fails queued jobs, waits for running ones, and frees the sessions.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	waiting := p.waiting
	p.waiting = nil
	p.wake.Broadcast()
	p.mu.Unlock()
	for _, j := range waiting {
		j.err = fmt.Errorf("model %s: %w", p.model, ErrClosed)
		close(j.done)
	}
	p.workers.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}
