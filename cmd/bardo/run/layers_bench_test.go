package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// cost is the process's time for some requests.
type cost struct {
	wall, cpu     time.Duration
	allocs, bytes uint64
	requests      int
}

// measure adds the cost of n requests. Work of layers in the background is in the processor time, but not in the wall time.
func (c *cost) measure(b *testing.B, n int, request func()) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(b), time.Now()
	for range n {
		request()
	}
	c.wall += time.Since(began)
	c.cpu += cpuTime(b) - cpu
	runtime.ReadMemStats(&after)
	c.allocs += after.Mallocs - before.Mallocs
	c.bytes += after.TotalAlloc - before.TotalAlloc
	c.requests += n
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// conversation is a request whose last question differs each time.
type conversation struct {
	frame string // with %d in the last question
	n     int
}

const system = `You are a coding assistant. You read the user's repository with tools, explain what you find, and change as little as possible.`

// sources returns a megabyte of source code, from this repository.
func sources(b *testing.B) []byte {
	b.Helper()
	var all []byte
	for _, pattern := range []string{"../../../extproc/*/*.go", "../../../policy/*/*.go", "../../../extproc/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") { // tests have private keys, which are refused
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, text...)
		}
	}
	return all
}

// coding is a coding agent's session: the user asks, and the model reads files, some of them repeatedly.
func coding(b *testing.B, size int) *conversation {
	b.Helper()
	source := sources(b)
	var out strings.Builder
	out.WriteString(`{"model":"m","max_tokens":256,"temperature":0.7,"tools":[{"type":"function","function":{"name":"read_file",` +
		`"description":"Reads a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}],"messages":[` +
		`{"role":"system","content":` + quoted(system) + `}`)
	const piece, turn = 1500, 1900
	for i := 0; out.Len()+turn < size; i++ {
		file := i
		if i%8 == 7 {
			file -= 6
		}
		at := file * piece % (len(source) - piece)
		text := strings.ToValidUTF8(string(source[at:at+piece]), "")
		fmt.Fprintf(&out, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"read_file",`+
			`"arguments":"{\"path\":\"cmd/bardo/run/part%d.go\"}"}}]},{"role":"tool","tool_call_id":"call_%d","content":%s}`, i, file, i, quoted(text))
		if i%4 == 3 {
			fmt.Fprintf(&out, `,{"role":"assistant","content":"Part %d assembles what requests need."},{"role":"user","content":"And which of it is shared between configurations?"}`, i)
		}
	}
	return ending(&out, size)
}

// prose is a conversation in prose.
func prose(_ *testing.B, size int) *conversation {
	const sentence = "The order \"4711\" left the warehouse at 09:30;\nits label says: \u201cfragile\u201d, so it goes by road. "
	const turn = 2000
	var out strings.Builder
	out.WriteString(`{"model":"m","max_tokens":256,"temperature":0.7,"messages":[{"role":"system","content":"You answer questions about parcels, briefly."}`)
	for i := 0; out.Len()+2*turn+300 < size; i++ {
		text := quoted(fmt.Sprintf("%d. ", i) + strings.Repeat(sentence, turn/len(sentence)))
		fmt.Fprintf(&out, `,{"role":"user","content":%s},{"role":"assistant","content":%s}`, text, text)
	}
	return ending(&out, size)
}

// ending adds the last question, padded so that the conversation has about the given size.
func ending(out *strings.Builder, size int) *conversation {
	const sentence = "It has to go on. "
	fill := max(0, min(size-out.Len()-100, 2000))
	out.WriteString(`,{"role":"user","content":` + quoted("Question %d: what happens in it when a provider fails? "+strings.Repeat(sentence, fill/len(sentence))) + `}]}`)
	return &conversation{frame: strings.ReplaceAll(strings.ReplaceAll(out.String(), "%", "%%"), "Question %%d", "Question %d")}
}

func quoted(text string) string { return string(jsonx.AppendString(nil, text)) }

// next returns the conversation's next request.
func (c *conversation) next() []byte {
	c.n++
	return fmt.Appendf(nil, c.frame, c.n)
}

// BenchmarkLayers serves requests with a new turn through the default layers, and without layers, alternately. The ratio is of the processor time of the whole
// request, without Envoy, gRPC and local models.
func BenchmarkLayers(b *testing.B) {
	with := run.BenchGateway(b, run.BenchParts{Layers: parts.Layers()})
	without := run.BenchGateway(b, run.BenchParts{Layers: func(*config.Config, *run.Services) []pipeline.Layer { return nil }})
	for _, shape := range []struct {
		name string
		of   func(*testing.B, int) *conversation
	}{{"coding", coding}, {"prose", prose}} {
		for _, size := range []int{1_000, 10_000, 50_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%dkB", shape.name, size/1000), func(b *testing.B) { compare(b, shape.of(b, size), with, without) })
		}
	}
}

// compare measures a conversation's requests with and without layers.
func compare(b *testing.B, c *conversation, with, without func([]byte, ...header.Field)) {
	b.Helper()
	with(c.next())
	without(c.next())
	var on, off cost
	const block = 16
	for b.Loop() {
		bodies := make([][]byte, 0, 2*block)
		for range 2 * block {
			bodies = append(bodies, c.next())
		}
		take := func(serve func([]byte, ...header.Field)) func() {
			return func() {
				serve(bodies[0])
				bodies = bodies[1:]
			}
		}
		on.measure(b, block, take(with))
		off.measure(b, block, take(without))
	}
	b.ReportMetric(0, "ns/op")
	on.report(b, "on")
	off.report(b, "off")
	b.ReportMetric(float64(on.cpu)/float64(off.cpu), "on/off")
}

func (c *cost) report(b *testing.B, name string) {
	b.Helper()
	n := float64(c.requests)
	b.ReportMetric(float64(c.wall.Nanoseconds())/n/1000, name+"-us")
	b.ReportMetric(float64(c.cpu.Nanoseconds())/n/1000, name+"-cpu-us")
	b.ReportMetric(float64(c.allocs)/n, name+"-allocs")
	b.ReportMetric(float64(c.bytes)/n/1000, name+"-kB")
}
