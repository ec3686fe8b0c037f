// Package notify sends alerts to operators by Telegram, Discord and webhooks. Only the program bardo contains it: with data_path: module, alerts are relayed
// from Envoy's process.
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
	// backlog is the number of queued messages per receiver; the oldest are dropped.
	backlog = 64
	// maxAttempts and maxRetryTime bound the retries of a message.
	maxAttempts  = 8
	maxRetryTime = 10 * time.Minute
)

// Opener returns an opener of senders that share a filter, so that a new sender does not repeat what an earlier one has sent.
func Opener(o *alerts.Options) alerts.Opener {
	f := &filter{}
	return func(_ context.Context, cfg *config.Config) (relay.Sink[alerts.Alert], error) {
		n := &cfg.Notifications
		if !n.Enabled() {
			return nil, nil //nolint:nilnil // no receiver is configured
		}
		to, err := receivers(n, o.Gateway)
		if err != nil {
			return nil, err
		}
		return open(f, rulesOf(n), to, o), nil
	}
}

// sender implements relay.Sink. Take never blocks.
type sender struct {
	filter *filter
	rules  rules
	o      *alerts.Options
	counts *telemetry.Notifications
	queues []*receiverQueue

	wake    chan struct{}
	closing chan struct{}
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// receiverQueue is the queue of a receiver.
type receiverQueue struct {
	*receiver
	queue chan queuedMessage
}

// queuedMessage is a message with its id, which is the same for each attempt.
type queuedMessage struct {
	id string
	message
}

func open(f *filter, r rules, to []*receiver, o *alerts.Options) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{filter: f, rules: r, o: o, counts: o.Metrics.Notifications(), wake: make(chan struct{}, 1), closing: make(chan struct{}), cancel: cancel}
	for _, r := range to {
		l := &receiverQueue{r, make(chan queuedMessage, backlog)}
		s.queues = append(s.queues, l)
		s.running.Go(func() { s.serve(ctx, l) })
	}
	s.running.Go(s.schedule)
	s.wake <- struct{}{} // for what an earlier sender has left
	return s
}

// Take implements relay.Sink.
func (s *sender) Take(a *alerts.Alert) {
	s.filter.add(time.Now(), a, &s.rules)
	select {
	case s.wake <- struct{}{}:
	default: // already woken
	}
}

// schedule queues messages when they are due, until the sender closes.
func (s *sender) schedule() {
	defer func() {
		for _, l := range s.queues {
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

// queue adds a message to the queue of every receiver. If a queue is full, its oldest message is dropped.
func (s *sender) queue(m *message) {
	m.Text = s.o.Redact(m.Text)
	q := queuedMessage{"msg_" + rand.Text(), *m}
	for _, l := range s.queues {
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

// serve sends a receiver's messages one after another.
func (s *sender) serve(ctx context.Context, l *receiverQueue) {
	for q := range l.queue {
		if ctx.Err() != nil {
			s.counts.Count(l.name, "dropped")
			continue
		}
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.MaxInterval = time.Second, time.Minute
		_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, l.send(ctx, q.id, &q.message) },
			backoff.WithBackOff(b), backoff.WithMaxTries(maxAttempts), backoff.WithMaxElapsedTime(maxRetryTime))
		if err != nil {
			s.counts.Count(l.name, "failed")
			s.o.Log.Error("an operator was not notified", "receiver", l.name, "event", q.Event, "error", s.o.Redact(unwrapPermanent(err).Error()))
			continue
		}
		s.counts.Count(l.name, "sent")
	}
}

// unwrapPermanent removes backoff's marker from an error.
func unwrapPermanent(err error) error {
	if p, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return p.Err
	}
	return err
}

// Close implements relay.Sink. What is not due yet stays in the filter for the next sender.
func (s *sender) Close(ctx context.Context) error {
	close(s.closing)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
	}()
	defer s.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	waiting := 0
	for _, l := range s.queues {
		waiting += len(l.queue)
	}
	s.cancel()
	<-done
	return fmt.Errorf("receivers that do not answer: %d messages are lost, and what was being sent", waiting)
}
