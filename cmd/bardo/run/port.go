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

// portFlag is --port: the port of the HTTP listener, which overrides the configuration and each reload. "" overrides nothing.
type portFlag string

func (p *portFlag) add(c *cobra.Command) {
	c.Flags().StringVar((*string)(p), "port", "", "port of the HTTP listener, over listen.http of the configuration; 0 is any free one")
}

// check validates the flag's value.
func (p *portFlag) check(c *cobra.Command) error {
	if f := c.Flags().Lookup("port"); f == nil || !f.Changed {
		return nil
	}
	if _, err := strconv.ParseUint(string(*p), 10, 16); err != nil {
		return fmt.Errorf("--port %q, expected a number from 0 to 65535", string(*p))
	}
	return nil
}

// apply sets the port in a configuration. If listen.http is off, the listener is on loopback. The error names another listener with the same port.
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
		_, port, _ := net.SplitHostPort(settings.Address(other.at)) // validated with the configuration
		if port == string(*p) && port != "0" {
			return errors.New("--port " + string(*p) + " is the port of " + other.key + ": choose another one")
		}
	}
	return nil
}
