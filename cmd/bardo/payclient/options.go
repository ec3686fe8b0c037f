package payclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
)

// options are the command's flags.
type options struct {
	keyFile                        string
	networks, payees, schemes      []string
	asset, assetName, assetVersion string
	maxRequest, maxDaily           string
	method, data                   string
	headers                        []string
	rpc                            string
	timeout                        time.Duration
}

func (o *options) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&o.method, "request", "X", "", "the method (GET, or POST with --data)")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a header of the request, as \"Name: value\"; may be repeated")
	f.StringVarP(&o.data, "data", "d", "", "the body of the request; @FILE reads it from a file, @- from the standard input")
	o.walletFlags(c)
}

// walletFlags adds the flags of the wallet and its limits.
func (o *options) walletFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.keyFile, "key-file", "", "a file of mode 0600 with the wallet's private key (else $BARDO_PAY_KEY)")
	f.StringSliceVar(&o.payees, "pay-to", nil, "an address that may be paid; may be repeated")
	f.StringVar(&o.maxRequest, "max-usd", "0.10", "the most that the request may cost")
	f.StringVar(&o.maxDaily, "max-usd-day", "1", "the most that may be paid in 24 hours, payments without a known outcome included")
	f.StringSliceVar(&o.schemes, "scheme", []string{string(pay.SchemeExact)}, "a scheme that is allowed: exact or upto; may be repeated, the first that is offered is taken")
	f.DurationVar(&o.timeout, "timeout", 20*time.Minute, "how long an answer is awaited")
	o.chainFlags(c)
	cli.Completes(c, "scheme", string(pay.SchemeExact), string(pay.SchemeUpTo))
}

// chainFlags adds the flags of chains and tokens.
func (o *options) chainFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&o.networks, "network", []string{"base"}, "a chain that may be paid on: base or base-sepolia; may be repeated")
	f.StringVar(&o.asset, "asset", "", "the token that may be paid with (default: USDC); it has six decimals")
	f.StringVar(&o.assetName, "asset-name", "USD Coin", "the name of --asset in its EIP-712 domain")
	f.StringVar(&o.assetVersion, "asset-version", "2", "the version of --asset in its EIP-712 domain")
	f.StringVar(&o.rpc, "rpc", "", "a node's JSON-RPC address, which is asked what became of earlier payments (else $BARDO_PAY_RPC)")
	cli.Completes(c, "network", "base", "base-sepolia")
}

// purpose is the purpose under which the book counts payments against limits.
const purpose = "command"

// wallet returns the wallet described by the flags, without its book.
func (o *options) wallet() (*client.Wallet, error) {
	w := &client.Wallet{Purpose: purpose, Now: time.Now}
	var err error
	if w.Rules.Assets, err = o.assets(); err != nil {
		return nil, err
	}
	for _, text := range o.payees {
		a, err := pay.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("--pay-to %q: %w", text, err)
		}
		w.Rules.Payees = append(w.Rules.Payees, a)
	}
	for _, s := range o.schemes {
		if pay.Scheme(s) != pay.SchemeExact && pay.Scheme(s) != pay.SchemeUpTo {
			return nil, fmt.Errorf("--scheme %q: expected exact or upto", s)
		}
		w.Rules.Schemes = append(w.Rules.Schemes, pay.Scheme(s))
	}
	if w.Rules.MaxPrice, err = amount("--max-usd", o.maxRequest); err != nil {
		return nil, err
	}
	if w.Rules.MaxDaily, err = amount("--max-usd-day", o.maxDaily); err != nil {
		return nil, err
	}
	w.Key, err = o.key()
	return w, err
}

func amount(flag, text string) (policy.Micro, error) {
	m, err := policy.ParseUSD(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	if m <= 0 {
		return 0, fmt.Errorf("%s: expected more than 0", flag)
	}
	return m, nil
}

func (o *options) assets() (all []client.Asset, err error) {
	for _, name := range o.networks {
		k, ok := pay.FindNetwork(name)
		if !ok {
			return nil, fmt.Errorf("--network %q is not known: expected base or base-sepolia", name)
		}
		token := k.USDC
		if o.asset != "" {
			token = pay.Token{Name: o.assetName, Version: o.assetVersion}
			if token.Address, err = pay.ParseAddress(o.asset); err != nil {
				return nil, fmt.Errorf("--asset %q: %w", o.asset, err)
			}
		}
		all = append(all, client.Asset{Network: k.Network, Token: token})
	}
	if o.asset != "" && len(o.networks) != 1 {
		return nil, errors.New("--asset is a token of one chain: name one --network")
	}
	if o.rpc == "" {
		o.rpc = os.Getenv("BARDO_PAY_RPC")
	}
	if o.rpc != "" && len(o.networks) != 1 {
		return nil, errors.New("--rpc is a node of one chain: name one --network")
	}
	return all, nil
}

// nodes returns the nodes of --rpc.
func (o *options) nodes() []*client.Node {
	const timeout = 15 * time.Second
	k, ok := pay.FindNetwork(o.networks[0])
	if !ok || o.rpc == "" {
		return nil
	}
	return []*client.Node{{URL: o.rpc, Network: k.Network, HTTP: &http.Client{Timeout: timeout}}}
}

// key reads the wallet's key. Errors do not contain any of it.
func (o *options) key() (client.Key, error) {
	if o.keyFile == "" {
		text := os.Getenv("BARDO_PAY_KEY")
		if text == "" {
			return client.Key{}, errors.New("there is no wallet to pay from: name a file with --key-file, or set BARDO_PAY_KEY")
		}
		k, err := client.ParseKey(text)
		if err != nil {
			return k, fmt.Errorf("BARDO_PAY_KEY: %w", err)
		}
		return k, nil
	}
	k, err := readKey(o.keyFile)
	if err != nil {
		return k, fmt.Errorf("--key-file %s: %w", o.keyFile, err)
	}
	return k, nil
}

func readKey(path string) (k client.Key, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return k, err
	}
	if !info.Mode().IsRegular() || !home.Private(info.Mode()) {
		return k, fmt.Errorf("others can read it (mode %04o): chmod 600 %s", info.Mode().Perm(), path)
	}
	const maxKeyFile = 1 << 10
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return k, err
	}
	return client.ParseKey(string(b))
}

// call returns the request described by the flags.
func (o *options) call(c *cobra.Command, address string) (*call, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address of http or https", address)
	}
	r := &call{method: o.method, url: u, header: http.Header{}}
	if r.body, err = o.body(c); err != nil {
		return nil, err
	}
	if r.method == "" {
		r.method = http.MethodGet
		if c.Flags().Changed("data") {
			r.method = http.MethodPost
			r.header.Set("Content-Type", "application/json")
		}
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, fmt.Errorf("-H %q: expected \"Name: value\"", name)
		}
		r.header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return r, nil
}

func (o *options) body(c *cobra.Command) ([]byte, error) {
	path, ok := strings.CutPrefix(o.data, "@")
	switch {
	case !ok:
		return []byte(o.data), nil
	case path == "-":
		return io.ReadAll(c.InOrStdin())
	}
	return os.ReadFile(path)
}
