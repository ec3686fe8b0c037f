package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What local models do to streams, and to memory: two gateways, one without models and one whose classifier always has more texts to judge than it has time
// for, carry the same streams, in turn.

const (
	modelStreams = 200
	textConns    = 8                      // connections whose requests bring long texts to judge
	textEvery    = 100 * time.Millisecond // on each of them
	modelRounds  = 3
	gapWindow    = 3 * pacedStream
	manyRequests = 100 // whose memory is looked at
)

// modelShapes are the gateways of -models: dir has the local models.
func modelShapes(dir string) []shape {
	return []shape{
		{name: "without models", config: "models: {embedding: \"off\", injection: \"off\"}\n"},
		{name: "with models", config: "models: {dir: " + dir + ", load: start}\npipeline: {semantic: on, injection: {timeout: 1s}}\n"},
	}
}

// streamGaps is what streams were like on one gateway.
type streamGaps struct {
	gaps             []time.Duration // between two tokens of a stream
	failures         int
	judged           int     // requests with a text to judge that were answered meanwhile
	idle, busy, most float64 // resident memory of the Go program in MB: before, with manyRequests, and the most of it with modelStreams
}

// models measures both gateways, and writes the table.
func (l *lab) models(ctx context.Context, w io.Writer) error {
	all := make([]streamGaps, len(l.gateways))
	wait(ctx, time.Now().Add(idleSettle))
	for i, g := range l.gateways {
		all[i].idle = residentMB(g.program.pid)
	}
	for i, g := range l.gateways {
		if _, err := streamThrough(ctx, g, manyRequests, func() { all[i].busy = residentMB(g.program.pid) }); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	for round := range modelRounds {
		for i := range l.gateways {
			k := (i + round) % len(l.gateways)
			if err := gapsOf(ctx, l.gateways[k], round, &all[k]); err != nil {
				return fmt.Errorf("%s: %w", l.gateways[k].name, err)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, modelRounds)
	}
	var b bytes.Buffer
	heading(&b, fmt.Sprintf("%d streams, while long texts are judged", modelStreams), "gateway", "gap p50 ms", "gap p99 ms", "failures", "texts", "not judged in time",
		"Go MB: idle", fmt.Sprintf("%d streams", manyRequests), "with texts")
	for i, g := range l.gateways {
		s := &all[i]
		slices.Sort(s.gaps)
		late, err := unjudged(ctx, g)
		if err != nil {
			return err
		}
		row(&b, g.name, millis(quantile(s.gaps, 0.5)), millis(quantile(s.gaps, 0.99)), strconv.Itoa(s.failures), strconv.Itoa(s.judged), strconv.Itoa(late), fmt.Sprintf("%.1f", s.idle), fmt.Sprintf("%.1f", s.busy), fmt.Sprintf("%.1f", s.most))
	}
	fmt.Fprintf(&b, "\nAims: 80 MB idle without models, and 200 MB with them and %d requests under way.\n", manyRequests)
	_, err := w.Write(b.Bytes())
	return err
}

// gapsOf loads one gateway with streams, and with texts to judge beside them.
func gapsOf(ctx context.Context, g *installed, round int, out *streamGaps) error {
	stop := sendTexts(ctx, g, round)
	defer func() { out.judged += stop() }()
	streams, err := streamThrough(ctx, g, modelStreams, func() { out.most = max(out.most, residentMB(g.program.pid)) })
	for i := range streams {
		out.gaps = append(out.gaps, streams[i].gaps...)
		out.failures += streams[i].failures
	}
	return err
}

// streamThrough keeps n streams under way for a while, and calls late when it is nearly over.
func streamThrough(ctx context.Context, g *installed, n int, late func()) ([]gapWorker, error) {
	s := g.subject(way{shape: g.name, key: true}, modelPacedOne, testCase{stream: true, paced: true, size: 1_000, conns: n})
	clients, err := dialAll(ctx, s.addr, n, gapWindow+grace)
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	workers, began := make([]gapWorker, n), time.Now()
	until := began.Add(gapWindow)
	for i, c := range clients {
		group.Go(func() {
			defer c.close()
			wait(ctx, began.Add(pacedStream*time.Duration(i)/time.Duration(n)))
			workers[i].run(ctx, c, s.request, until)
		})
	}
	wait(ctx, until.Add(-idleSettle))
	late()
	group.Wait()
	return workers, ctx.Err()
}

// gapWorker is one connection's share.
type gapWorker struct {
	gaps     []time.Duration
	last     time.Time
	failures int
}

// run stops at its first failure.
func (w *gapWorker) run(ctx context.Context, c *client, request []byte, until time.Time) {
	c.chunk = func() {
		now := time.Now()
		if !w.last.IsZero() {
			w.gaps = append(w.gaps, now.Sub(w.last))
		}
		w.last = now
	}
	for time.Now().Before(until) && ctx.Err() == nil {
		w.last = time.Time{}
		if _, err := c.do(request, true); err != nil {
			w.failures++
			return
		}
	}
}

// sendTexts sends requests with long texts, each another one: more than the classifier can read. stop ends that, and returns how many were answered.
func sendTexts(ctx context.Context, g *installed, round int) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	answered := make([]int, textConns)
	long := strings.Repeat("The assistant should please read on. The parcel left the depot in the morning, and was signed for the same day. ", 150)
	for i := range textConns {
		group.Go(func() {
			client, err := dial(ctx, g.addr, time.Now().Add(2*gapWindow+2*grace))
			if err != nil {
				return
			}
			defer client.close()
			for n := 0; ctx.Err() == nil; n++ {
				next := time.Now().Add(textEvery)
				payload := fmt.Sprintf(`{"model":%q,"max_tokens":256,"temperature":0.7,"messages":[{"role":"user","content":"Page %d of %d in %d. %s"}]}`, modelOne, n, i, round, long)
				request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", g.key, len(payload), payload)
				if _, err := client.do(request, false); err != nil {
					return
				}
				answered[i]++
				wait(ctx, next)
			}
		})
	}
	return func() (n int) {
		cancel()
		group.Wait()
		for _, k := range answered {
			n += k
		}
		return n
	}
}

// unjudged is how many texts had no verdict in time, or were left out since too many waited.
func unjudged(ctx context.Context, g *installed) (n int, err error) {
	b, err := get(ctx, &http.Client{Timeout: grace}, g.gateway.Admin+"/metrics")
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "bardo_injection_texts_total{") && (strings.Contains(line, `"unscored"`) || strings.Contains(line, `"skipped"`)) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			n += int(v)
		}
	}
	return n, nil
}
