package main

import (
	"fmt"
	"regexp"
	"time"
)

// testCase is one row of the matrix: what is asked for, and by how many concurrently.
type testCase struct {
	stream bool
	paced  bool // a stream whose tokens come one by one
	held   bool // a stream that stays open after its first token
	size   int  // bytes of the request
	conns  int
	ramp   time.Duration // before the measured window
	window time.Duration
}

const (
	pacedTokens = 40
	pacedGap    = 50 * time.Millisecond
	burstTokens = 16
	pacedStream = pacedTokens * pacedGap
	settle      = 60 * time.Millisecond
)

func (c testCase) name() string {
	switch {
	case c.paced:
		return fmt.Sprintf("paced/%s/c%d", sizeName(c.size), c.conns)
	case c.stream:
		return fmt.Sprintf("stream/%s/c%d", sizeName(c.size), c.conns)
	}
	return fmt.Sprintf("json/%s/c%d", sizeName(c.size), c.conns)
}

// tokens is how many pieces of content one answer has.
func (c testCase) tokens() int {
	if c.paced {
		return pacedTokens
	}
	return burstTokens
}

func sizeName(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%dMB", n/1_000_000)
	}
	return fmt.Sprintf("%dkB", n/1000)
}

// matrix lists what is measured.
func matrix(quick bool, window time.Duration, only *regexp.Regexp) []testCase {
	sizes, conns, streams := []int{1_000, 50_000, 1_000_000}, []int{1, 16, 64}, []int{100, 500}
	if quick {
		conns, streams = []int{1, 64}, streams[:1]
	}
	var out []testCase
	add := func(c testCase) {
		if only.MatchString(c.name()) {
			out = append(out, c)
		}
	}
	for _, stream := range []bool{false, true} {
		for _, size := range sizes {
			for _, n := range conns {
				add(testCase{stream: stream, size: size, conns: n, ramp: settle, window: window})
			}
		}
	}
	for _, n := range streams {
		add(testCase{stream: true, paced: true, size: 1_000, conns: n, ramp: pacedStream, window: pacedStream})
	}
	return out
}
