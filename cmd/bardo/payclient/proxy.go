package payclient

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/timerslack"
	"bardo.money/gateway/policy/pay/client"
)

// proxyCommand is `bardo pay proxy`.
func proxyCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use: "proxy URL [-- COMMAND [ARGUMENT …]]", Short: "Pay for the requests of another program", Args: proxyArgs,
		Long: "Listen on this machine, pass requests on to URL, and pay for those that the server wants to be paid for. --max-usd bounds each one.\n\n" +
			"With a command, it is run with OPENAI_BASE_URL, ANTHROPIC_BASE_URL and the keys that their clients want in its environment, and the proxy ends with it. Without\n" +
			"one, the addresses are printed. They have a secret part: who knows it spends from the wallet. Credentials of requests are not passed on.",
	}
	o.walletFlags(c)
	listen := c.Flags().String("listen", "127.0.0.1:0", "the address to listen on, of this machine alone; port 0 takes any")
	c.RunE = func(c *cobra.Command, args []string) error { return o.proxy(c, *listen, args[0], args[1:]) }
	return c
}

func proxyArgs(c *cobra.Command, args []string) error {
	if n := c.ArgsLenAtDash(); len(args) == 0 || n == 0 || n < 0 && len(args) > 1 || n > 1 {
		return fmt.Errorf("%s takes one URL, and a command behind --", c.CommandPath())
	}
	return nil
}

// proxy serves until the command exits, or c's context is done.
func (o *options) proxy(c *cobra.Command, listen, address string, command []string) (err error) {
	target, err := targetOf(address)
	if err != nil {
		return err
	}
	w, err := o.wallet()
	if err != nil {
		return err
	}
	if w.Book, err = openBook(c.Context()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Book.Close()) }()
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("--listen %q: expected an address of this machine alone, such as 127.0.0.1:8402", listen)
	}
	l, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", listen)
	if err != nil {
		return err
	}
	p := &proxy{o: o, wallet: w, target: target, token: rand.Text(), notes: c.ErrOrStderr()}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // proxy waits for it
	base := "http://" + l.Addr().String() + "/" + p.token
	if len(command) > 0 {
		err = runCommand(c, base, command)
	} else {
		_, err = fmt.Fprintf(c.OutOrStdout(), "OPENAI_BASE_URL=%s/v1\nANTHROPIC_BASE_URL=%s\n", base, base)
		if err == nil {
			<-c.Context().Done()
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), time.Second)
	defer cancel()
	if s.Shutdown(closing) != nil {
		_ = s.Close() // requests in flight are aborted: their payments are in the book
	}
	if e := <-served; err == nil && !errors.Is(e, http.ErrServerClosed) {
		err = e
	}
	return err
}

func targetOf(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the address of a server of http or https", cli.Printable(address))
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return u, nil
}

// placeholder is the API key for clients that require one. It is not a credential.
const placeholder = "x402"

// runCommand runs a program whose requests go to the proxy. The wallet's key is removed from its environment.
func runCommand(c *cobra.Command, base string, command []string) error {
	cmd := exec.CommandContext(c.Context(), command[0], command[1:]...) //nolint:gosec // the user's own command
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
	own := []string{"BARDO_PAY_KEY=", "OPENAI_BASE_URL=", "OPENAI_API_KEY=", "ANTHROPIC_BASE_URL=", "ANTHROPIC_API_KEY=", "ANTHROPIC_AUTH_TOKEN="}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(own, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	cmd.Env = append(cmd.Env, "OPENAI_BASE_URL="+base+"/v1", "ANTHROPIC_BASE_URL="+base, "OPENAI_API_KEY="+placeholder, "ANTHROPIC_API_KEY="+placeholder)
	if err := timerslack.Start(cmd.Start); err != nil {
		return err
	}
	err := cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() > 0 {
		return cli.Exit(e.ExitCode())
	}
	return err
}

// proxy forwards requests, and pays for them.
type proxy struct {
	o      *options
	wallet *client.Wallet
	target *url.URL
	token  string // prefix of request paths
	notes  io.Writer
}

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 20

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 {
		refuse(w, http.StatusNotFound, errors.New("this address has to begin with the secret part that `bardo pay proxy` has given"))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err)
		return
	}
	to, err := p.address(path)
	if err != nil {
		refuse(w, http.StatusBadRequest, errors.New("the path cannot be passed on"))
		return
	}
	to.RawQuery = r.URL.RawQuery
	resp, err := p.send(r.Context(), &call{method: r.Method, url: to, header: requestHeaders(r.Header), body: body})
	if err != nil {
		refuse(w, http.StatusBadGateway, err)
		return
	}
	defer func() { _ = resp.Body.Close() }() // read only, or the client has disconnected
	maps.Copy(w.Header(), forwardedHeaders(resp.Header))
	w.WriteHeader(resp.StatusCode)
	stream(w, resp.Body)
	for name, values := range resp.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

// address is where a path behind the secret part goes, which is changed in nothing.
func (p *proxy) address(path string) (*url.URL, error) {
	to := *p.target
	to.RawPath = p.target.EscapedPath() + "/" + path
	var err error
	to.Path, err = url.PathUnescape(to.RawPath)
	return &to, err
}

// send sends a request, pays for it, and prints the payment.
func (p *proxy) send(ctx context.Context, c *call) (*http.Response, error) {
	if err := p.o.reconcileEarlier(ctx, p.wallet, c); err != nil {
		return nil, err
	}
	resp, paid, err := p.wallet.Do(ctx, &client.Request{Name: c.name()}, c.sender(ctx, p.o.timeout))
	if paid != nil {
		_, _ = fmt.Fprintln(p.notes, summary(paid)) // nowhere to report a broken terminal to
	}
	return resp, err
}

// hopByHop are the headers that are not forwarded.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"}

// forwardedHeaders returns the headers of a message without hop-by-hop headers.
func forwardedHeaders(h http.Header) http.Header {
	out := h.Clone()
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}

// requestHeaders are the headers that are forwarded to the server: no credentials, which a payment replaces. The header for a provider's key is forwarded,
// since it is meant for a gateway, which accepts it together with a payment.
func requestHeaders(h http.Header) http.Header {
	out := forwardedHeaders(h)
	maps.DeleteFunc(out, func(name string, _ []string) bool {
		name = strings.ToLower(name)
		return name == "accept-encoding" || header.IsCredential(name) && name != header.UpstreamKey
	})
	return out
}

// stream copies an answer, flushing each chunk.
func stream(w http.ResponseWriter, from io.Reader) {
	out, buffer := http.NewResponseController(w), make([]byte, 32<<10)
	_ = out.Flush() // the answer's headers, before its first bytes; a client that has gone is met below
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, e := w.Write(buffer[:n]); e != nil || out.Flush() != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) //nolint:forbidigo // makes net/http abort the client's answer, too
		}
	}
}

// refuse writes an error in a format that OpenAI and Anthropic clients show.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": "payment_proxy", "message": err.Error()}}) // the client may have disconnected
}
