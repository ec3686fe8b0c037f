package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy/e2ee"
)

// options are the flags of both commands.
type options struct {
	url     string
	keys    []string
	timeout time.Duration
	listen  string
}

// Command is `bardo e2ee`.
func Command() *cobra.Command {
	c := cli.Group("e2ee", "Send requests that only an enclave can read")
	c.AddCommand(sendCommand(), proxyCommand())
	return c
}

func (o *options) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.url, "url", "http://localhost:8080", "the gateway")
	c.Flags().StringArrayVar(&o.keys, "enclave-key", nil, "the enclave's X25519 public key, in base64 or hexadecimal; again for the one that is used if the enclave does not know the first")
	c.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long an answer may take")
}

func (o *options) client() (*Client, error) {
	if len(o.keys) == 0 {
		return nil, cli.Advise(errors.New("no key of the enclave is given"), "--enclave-key pins it; the enclave's operator publishes it")
	}
	keys, err := e2ee.ParseKeys(o.keys)
	if err != nil {
		return nil, fmt.Errorf("--enclave-key: %w", err)
	}
	follow := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a caller's key is for one server
	return &Client{URL: o.url, Keys: keys, HTTP: &http.Client{Timeout: o.timeout, CheckRedirect: follow}}, nil
}

func sendCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use: "send FILE", Short: "Encrypt a request for an enclave, send it through the gateway, and print the opened answer", Args: cli.OneArg("a file, or - for the standard input"),
		Long: "Encrypt a chat completion for the enclave's pinned key, send it to the gateway, and print the answer, which only this command can open. The gateway reads the name\n" +
			"of the model, max_tokens and the usage, and nothing else. The gateway's key is read from $BARDO_API_KEY.",
	}
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := o.client()
		if err != nil {
			return err
		}
		body, err := readFile(c.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		header := http.Header{}
		if key := os.Getenv("BARDO_API_KEY"); key != "" {
			header.Set("Authorization", "Bearer "+key)
		}
		got, err := client.Send(c.Context(), body, header)
		if err != nil {
			return err
		}
		if _, err := c.OutOrStdout().Write(append(got.Body, '\n')); err != nil {
			return err
		}
		if got.Status/100 != 2 {
			hint := ""
			if got.Status == http.StatusUnauthorized && header.Get("Authorization") == "" {
				hint = ": set BARDO_API_KEY to a key of the gateway"
			}
			_, _ = fmt.Fprintf(c.ErrOrStderr(), "bardo: the gateway answered %d%s\n", got.Status, hint) // nowhere to report a broken terminal to
			return cli.Exit(1)
		}
		return nil
	}
	return c
}

func readFile(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	b, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if len(b) > maxRequest {
		return nil, fmt.Errorf("the request has more than %d bytes", maxRequest)
	}
	return b, err
}

func proxyCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use: "proxy", Short: "Serve OpenAI's chat completions on loopback, and encrypt each for an enclave", Args: cli.NoArgs,
		Long: "Serve POST /v1/chat/completions for clients of this machine, encrypt each request for the enclave's pinned key, and send it to the gateway. Set the base URL of an\n" +
			"OpenAI client to what is printed. The client's key goes to the gateway; nothing readable leaves this process.",
	}
	o.flags(c)
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "the address; it has to be on loopback")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := o.client()
		if err != nil {
			return err
		}
		l, err := listen(c.Context(), o.listen)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.OutOrStdout(), "http://%s/v1\n", l.Addr()); err != nil {
			return errors.Join(err, l.Close())
		}
		return serve(c.Context(), l, client.Handler())
	}
	return c
}

// listen listens on loopback only, since requests are readable there.
func listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("--listen: %q is not on loopback, such as 127.0.0.1: requests are readable there", host)
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// shutdownTimeout bounds how long requests may take to finish once the command is stopped.
const shutdownTimeout = 5 * time.Second

// serve serves until ctx is done.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- s.Shutdown(ctx)
	})
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
