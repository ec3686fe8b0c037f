package run

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
)

// portFlag is --port: the HTTP listener's port, over the configuration and over each one that is reloaded. "" leaves it as it is.
type portFlag string

func (p *portFlag) add(c *cobra.Command) {
	c.Flags().StringVar((*string)(p), "port", "", "port of the HTTP listener, over listen.http of the configuration; 0 is any free one")
}

// check reports whether the flag was given a port.
func (p *portFlag) check(c *cobra.Command) error {
	if f := c.Flags().Lookup("port"); f == nil || !f.Changed {
		return nil
	}
	if _, err := strconv.ParseUint(string(*p), 10, 16); err != nil {
		return fmt.Errorf("--port %q, expected a number from 0 to 65535", string(*p))
	}
	return nil
}

// apply changes the configuration. Where listen.http is off, the port is one of the loopback interface. The error says which other listener has
// the port.
func (p *portFlag) apply(cfg *config.Config) error {
	if *p == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(settings.Address(cfg.Listen.HTTP))
	if err != nil {
		host = "127.0.0.1"
	}
	cfg.Listen.HTTP = config.Addr(net.JoinHostPort(host, string(*p)))
	for _, other := range []struct {
		key string
		at  config.Addr
	}{{"listen.https", cfg.Listen.HTTPS}, {"listen.admin", cfg.Listen.Admin}, {"listen.envoy_admin", cfg.Listen.EnvoyAdmin}} {
		_, port, _ := net.SplitHostPort(settings.Address(other.at)) // checked with the configuration
		if port == string(*p) && port != "0" {
			return errors.New("--port " + string(*p) + " is the port of " + other.key + ": choose another one")
		}
	}
	return nil
}
