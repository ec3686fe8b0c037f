// Command fakeprovider runs one fake provider, to try a gateway by hand or to stand behind a benchmark.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"bardo.money/gateway/e2e/fake"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fakeprovider:", err)
		os.Exit(1)
	}
}

func run() error {
	dialect := flag.String("dialect", "openai", "openai or anthropic")
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	key := flag.String("key", "", "the credential to accept (default sk-fake-DIALECT)")
	models := flag.String("models", "", "comma list of models; empty: any")
	tokens := flag.Int("tokens", 16, "pieces of content per answer")
	size := flag.Int("token-size", 0, "bytes of each piece (0: about 5)")
	latency := flag.Duration("latency", 0, "time before the headers")
	gap := flag.Duration("gap", 0, "time between pieces of content")
	hold := flag.Bool("hold", false, "with -bench: leave a stream open after its first piece of content")
	bench := flag.Bool("bench", false, "answer with bytes rendered once; check and record nothing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := fake.Config{Dialect: fake.Dialect(*dialect), Addr: *addr, Key: *key}
	if *models != "" {
		cfg.Models = strings.Split(*models, ",")
	}
	if *bench {
		cfg.Bench = &fake.Bench{Tokens: *tokens, TokenSize: *size, Latency: *latency, Gap: *gap, Hold: *hold}
	}
	s, err := fake.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Stop()
	s.Behave(fake.Behaviour{Tokens: *tokens, TokenSize: *size, HeaderDelay: *latency, Gap: *gap})
	fmt.Printf("base_url %s\nkey %s\n", s.URL, s.Key)
	if !*bench {
		go forget(ctx, s)
	}
	<-ctx.Done()
	return nil
}

// forget keeps the record of a long run small.
func forget(ctx context.Context, s *fake.Server) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.Forget()
		case <-ctx.Done():
			return
		}
	}
}
