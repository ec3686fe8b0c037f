package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/polltest"
)

// collected is a sink that stores what it takes.
type collected struct {
	to     string
	mu     sync.Mutex
	ids    []string
	closed bool
}

func (c *collected) Take(f *record.Finished) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, f.ID)
}

func (c *collected) Close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *collected) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

func receiver(host string) *config.Config {
	c := &config.Config{}
	c.Telemetry.OTLP = config.URL{Scheme: "http", Host: host}
	return c
}

// TestATakerFollowsTheConfiguration: there is none without a receiver, and another one for another receiver; what is queued at the end is sent.
func TestATakerFollowsTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var feed event.Feed[record.Finished]
		var now atomic.Pointer[config.Config]
		var opened []*collected
		r := Runner[record.Finished]{Source: FromFeed(&feed), Config: now.Load, Log: slog.New(slog.DiscardHandler), Dropped: func(uint64) {}}
		r.Open = func(_ context.Context, cfg *config.Config) (Sink[record.Finished], error) {
			switch to := cfg.Telemetry.OTLP.Host; to {
			case "":
				return nil, nil //nolint:nilnil // no receiver
			case "wrong":
				return nil, errors.New("no such receiver")
			default:
				opened = append(opened, &collected{to: to})
				return opened[len(opened)-1], nil
			}
		}
		now.Store(&config.Config{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		use := func(c *config.Config) {
			now.Store(c)
			time.Sleep(2 * pollInterval) //nolint:forbidigo // synctest's
			synctest.Wait()
		}
		use(&config.Config{})
		if feed.Watched() {
			t.Error("without a receiver, requests are kept")
		}
		use(receiver("wrong"))
		use(receiver("a"))
		feed.Publish(record.Finished{ID: "1"})
		use(receiver("b"))
		feed.Publish(record.Finished{ID: "2"})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(opened) != 2 || opened[0].to != "a" || opened[1].to != "b" || opened[0].seen() != 1 || opened[1].ids[0] != "2" || !opened[0].closed || !opened[1].closed {
			t.Errorf("%+v", opened)
		}
		if feed.Watched() {
			t.Error("a stopped taker watches")
		}
	})
}

// TestAStreamOfFinishedRequestsIsReadAgain after the data path has restarted.
func TestAStreamOfFinishedRequestsIsReadAgain(t *testing.T) {
	var feed event.Feed[record.Finished]
	s := httptest.NewServer(Serve(&feed))
	defer s.Close()
	var calls atomic.Int64
	open := func(ctx context.Context) (io.ReadCloser, error) {
		if calls.Add(1) == 1 {
			return nil, errors.New("away")
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req) //nolint:forbidigo // a test's client
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var c collected
	done := make(chan struct{})
	go func() {
		defer close(done)
		FromStream[record.Finished](open)(ctx, c.Take, func(uint64) {})
	}()
	for want := range 2 {
		polltest.Until(t, "the stream", feed.Watched)
		feed.Publish(record.Finished{ID: "x"})
		polltest.Until(t, "the request", func() bool { return c.seen() == want+1 })
		s.CloseClientConnections()
		polltest.Until(t, "the end of the stream", func() bool { return calls.Load() > int64(want)+2 })
	}
	stop()
	<-done
}

// TestWhatAnExporterIsTooSlowForIsCounted, whichever process the data path runs in.
func TestWhatAnExporterIsTooSlowForIsCounted(t *testing.T) {
	var lost uint64
	count := reportGrowth(func() func() uint64 {
		at := []uint64{0, 3, 3, 5}
		return func() uint64 { n := at[0]; at = at[1:]; return n }
	}(), func(n uint64) { lost += n })
	for range 4 {
		count()
	}
	if lost != 5 {
		t.Errorf("%d", lost)
	}
}
