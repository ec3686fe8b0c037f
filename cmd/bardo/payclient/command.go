// Package payclient is the command `bardo pay`: a client for tools that cannot answer a 402 themselves. It handles flags, files and the terminal; the packages
// below it decide what is paid, and that nothing is paid twice.
package payclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// Command is `bardo pay`.
func Command() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use: "pay URL", Short: "Send a request, and pay for it if the server asks (x402)", Args: cli.OneArg("a URL"),
		Long: "Send a request, and pay for it from a wallet if the server answers 402 with a price (x402, versions 1 and 2). The answer goes to the standard output, what was\n" +
			"paid to the standard error. Nothing is signed that the flags do not allow: --pay-to names who may be paid, and --max-usd how much.\n\n" +
			"The key is read from --key-file, a file of mode 0600, or from $BARDO_PAY_KEY. Payments are stored before they are sent ($BARDO_HOME/outgoing.db): if the\n" +
			"answer is lost, the same command sends the same payment again, and does not sign another one until it is known what became of the first.",
	}
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, args[0]) }
	c.AddCommand(proxyCommand(), listCommand(), reconcileCommand())
	return c
}

// run sends one request.
func (o *options) run(c *cobra.Command, address string) error {
	call, err := o.call(c, address)
	if err != nil {
		return err
	}
	w, err := o.wallet()
	if err != nil {
		return err
	}
	book, err := openBook(c.Context())
	if err != nil {
		return err
	}
	w.Book = book
	return errors.Join(o.send(c, w, call), book.Close())
}

func openBook(ctx context.Context) (*outgoing.Book, error) {
	h, err := home.Open()
	if err != nil {
		return nil, err
	}
	return outgoing.OpenBook(ctx, h.Path(home.Outgoing), time.Now)
}

// send sends the request, and prints its answer and the payment.
func (o *options) send(c *cobra.Command, w *client.Wallet, call *call) error {
	ctx := c.Context()
	if err := o.reconcileEarlier(ctx, w, call); err != nil {
		return err
	}
	resp, paid, err := w.Do(ctx, &client.Request{Name: call.name()}, call.sender(ctx, o.timeout))
	if err != nil {
		if paid != nil {
			_, _ = fmt.Fprintln(c.ErrOrStderr(), summary(paid))
		}
		return advise(err)
	}
	_, err = io.Copy(c.OutOrStdout(), resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if paid != nil {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), summary(paid)) // nowhere to report a broken terminal to
	}
	if err != nil {
		return fmt.Errorf("the answer was cut off: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "bardo: the server answered %s\n", resp.Status)
		return cli.Exit(1)
	}
	return nil
}

// reconcileEarlier asks the chain about an earlier payment of the request whose authorization has expired: if it was not used, the request can be paid for
// anew.
func (o *options) reconcileEarlier(ctx context.Context, w *client.Wallet, call *call) error {
	unresolved, ok, err := w.Book.Unresolved(ctx, w.Key.Address(), w.Purpose, call.name())
	if err != nil || !ok || time.Now().Unix() < int64(unresolved.ValidBefore) || o.rpc == "" { //nolint:gosec // a time
		return err
	}
	if _, err := client.Reconcile(ctx, w.Book, o.nodes()); err != nil {
		return err
	}
	after, err := w.Book.Find(ctx, unresolved.ID)
	if err == nil && after.State == outgoing.Used {
		err = fmt.Errorf("$%s was paid for this request at %s, and its answer is lost: the same command now pays for it anew", unresolved.Value, unresolved.At.Format(time.RFC3339))
	}
	return err
}

// summary describes a payment for people.
func summary(p *client.Payment) string {
	what := fmt.Sprintf("$%s to %s on %s", p.Value, p.To, p.Network)
	if p.UpTo {
		what = "at most " + what
	}
	switch {
	case p.State == outgoing.Open:
		return fmt.Sprintf("signed: %s; it is not known whether it was taken (%s). The payment is valid until %s, and is not signed again before its outcome is known", what, p.Reason, time.Unix(int64(p.ValidBefore), 0).Format(time.RFC3339)) //nolint:gosec // a time
	case p.Tx != "":
		return fmt.Sprintf("paid: %s%s, transaction %s", what, taken(p), p.Tx)
	}
	return fmt.Sprintf("paid: %s, in no block yet", what)
}

// taken is the amount that the payee reports to have taken of a maximum.
func taken(p *client.Payment) string {
	if !p.UpTo || p.Receipt.Amount == "" {
		return ""
	}
	return " (" + cli.Printable(p.Receipt.Amount) + " units of the token were taken)"
}

// advise adds advice to the error of a refused payment.
func advise(err error) error {
	switch {
	case isA[*client.Refusal](err):
		return cli.Advise(err, "the flags --network, --asset, --pay-to, --max-usd and --scheme say what is allowed")
	case isA[*outgoing.CapError](err):
		return cli.Advise(err, "--max-usd-day raises the limit")
	case isA[*outgoing.UnresolvedError](err):
		return cli.Advise(err, "`bardo pay reconcile --rpc URL` asks the chain")
	case isA[*client.UnknownError](err):
		return cli.Advise(err, "the same command sends the same payment again")
	}
	return err
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// call is the request to send.
type call struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
}

// name identifies the request in the book: equal requests have equal names.
func (c *call) name() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n", c.method, c.url) // never fails
	_, _ = h.Write(c.body)
	return hex.EncodeToString(h.Sum(nil))
}

// sender sends the request with its own client, which follows no redirects: a payment is for the server that stated the price.
func (c *call) sender(ctx context.Context, timeout time.Duration) client.Send {
	one := &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(name, value string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, c.method, c.url.String(), strings.NewReader(string(c.body)))
		if err != nil {
			return nil, err
		}
		req.Header = c.header.Clone()
		if name != "" {
			req.Header.Set(name, value)
		}
		resp, err := one.Do(req)
		if err == nil && resp.StatusCode < http.StatusOK { // it speaks another protocol from here on, or none
			return nil, errors.Join(fmt.Errorf("the server answered %s, which is no answer to a request", resp.Status), resp.Body.Close())
		}
		return resp, err
	}
}
