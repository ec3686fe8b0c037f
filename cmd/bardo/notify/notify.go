// Package notify tells operators of alerts by Telegram, Discord and webhooks. The program bardo alone contains it: with data_path: module, alerts come from
// Envoy's process to this one.
package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/run/relay"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/telemetry"
)

const (
	// backlog is how many messages wait for a receiver; the oldest are dropped.
	backlog = 64
	// tries is how often a message is sent at most, and retryTime how long.
	tries     = 8
	retryTime = 10 * time.Minute
)

// Opener makes senders. What one has told, the next one of the same opener does not tell again.
func Opener(o *alerts.Options) alerts.Opener {
	f := &filter{}
	return func(_ context.Context, cfg *config.Config) (relay.Sink[alerts.Alert], error) {
		n := &cfg.Notifications
		if !n.Enabled() {
			return nil, nil //nolint:nilnil // nobody is told
		}
		to, err := receivers(n, o.Gateway)
		if err != nil {
			return nil, err
		}
		return open(f, rulesOf(n), to, o), nil
	}
}

// sender implements relay.Taker. Taking an alert never waits.
type sender struct {
	filter *filter
	rules  rules
	o      *alerts.Options
	counts *telemetry.Notifications
	lines  []*line

	wake    chan struct{}
	closing chan struct{}
	kill    context.CancelFunc
	running sync.WaitGroup
}

// line is the queue of a receiver.
type line struct {
	*receiver
	queue chan queued
}

// queued is a message with its id, which is the same each time that it is sent.
type queued struct {
	id string
	message
}

func open(f *filter, r rules, to []*receiver, o *alerts.Options) *sender {
	ctx, kill := context.WithCancel(context.Background())
	s := &sender{filter: f, rules: r, o: o, counts: o.Metrics.Notifications(), wake: make(chan struct{}, 1), closing: make(chan struct{}), kill: kill}
	for _, r := range to {
		l := &line{r, make(chan queued, backlog)}
		s.lines = append(s.lines, l)
		s.running.Go(func() { s.serve(ctx, l) })
	}
	s.running.Go(s.schedule)
	s.wake <- struct{}{} // what an earlier sender has left
	return s
}

// Take implements relay.Taker.
func (s *sender) Take(a *alerts.Alert) {
	s.filter.take(time.Now(), a, &s.rules)
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// schedule queues messages when they are due, until the sender closes.
func (s *sender) schedule() {
	defer func() {
		for _, l := range s.lines {
			close(l.queue)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.wake:
		case <-timer.C:
		}
		now := time.Now()
		ready, next := s.filter.due(now, &s.rules)
		for i := range ready {
			s.queue(&ready[i])
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(next.Sub(now))
		}
	}
}

// queue hands a message to every receiver. Of a receiver that is too slow the oldest one is dropped.
func (s *sender) queue(m *message) {
	m.Text = s.o.Redact(m.Text)
	q := queued{"msg_" + rand.Text(), *m}
	for _, l := range s.lines {
		for {
			select {
			case l.queue <- q:
			default:
				select {
				case <-l.queue:
					s.counts.Count(l.name, "dropped")
				default: // it was read meanwhile
				}
				continue
			}
			break
		}
	}
}

// serve sends the messages of a receiver, one after another.
func (s *sender) serve(ctx context.Context, l *line) {
	for q := range l.queue {
		if ctx.Err() != nil {
			s.counts.Count(l.name, "dropped")
			continue
		}
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.MaxInterval = time.Second, time.Minute
		_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, l.send(ctx, q.id, &q.message) },
			backoff.WithBackOff(b), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(retryTime))
		if err != nil {
			s.counts.Count(l.name, "failed")
			s.o.Log.Error("an operator was not notified", "receiver", l.name, "event", q.Event, "error", s.o.Redact(unwrapped(err).Error()))
			continue
		}
		s.counts.Count(l.name, "sent")
	}
}

// unwrapped is an error without what says how to go on.
func unwrapped(err error) error {
	if p, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return p.Err
	}
	return err
}

// Close implements relay.Taker. What is not due yet is kept for the next sender.
func (s *sender) Close(ctx context.Context) error {
	close(s.closing)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
	}()
	defer s.kill()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	waiting := 0
	for _, l := range s.lines {
		waiting += len(l.queue)
	}
	s.kill()
	<-done
	return fmt.Errorf("receivers that do not answer: %d messages are lost, and what was being sent", waiting)
}
