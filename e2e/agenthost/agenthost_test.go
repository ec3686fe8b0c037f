// Package agenthost tests the ruleset of docs/deploy/agent-host.nft: from the machine of an agent that has loaded it, no provider of models is reached but
// through the gateway. It stands apart because it needs root, network namespaces and nf_tables.
package agenthost

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// The network between the agent's machine and everything else.
const (
	gatewayIP, gatewayPort = "10.91.0.2", "8443"
	providerIP             = "10.91.0.3"
	providerIP6            = "fd91::3"
)

// host is an agent's machine, and what it could reach.
type host struct {
	agent    *space
	gateway  *gateway.Gateway
	provider *fake.Server
}

// newHost connects two namespaces: the agent's machine, and a network with the gateway and a provider.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{agent: newSpace(t), provider: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}
	h.gateway = gateway.Run(t, gateway.Options{Providers: []gateway.Provider{{ID: "own", Fake: h.provider, Models: []gateway.Model{{ID: "m"}}}}})
	outside := newSpace(t)
	outside.ip(t, fmt.Sprintf("link add name ext0 type veth peer name eth0 netns %d", h.agent.tid))
	for _, at := range []string{gatewayIP + "/24", providerIP + "/24", providerIP6 + "/64 nodad"} {
		outside.ip(t, "address add "+at+" dev ext0")
	}
	outside.ip(t, "link set ext0 up")
	for _, args := range []string{"link set lo up", "address add 10.91.0.1/24 dev eth0", "address add fd91::1/64 dev eth0 nodad", "link set eth0 up"} {
		h.agent.ip(t, args)
	}
	outside.relay(t, gatewayIP+":"+gatewayPort, strings.TrimPrefix(h.gateway.URL, "http://"))
	provider := strings.TrimSuffix(strings.TrimPrefix(h.provider.URL, "http://"), "/v1")
	for _, at := range []string{providerIP + ":443", "[" + providerIP6 + "]:443", providerIP + ":" + gatewayPort, gatewayIP + ":443"} {
		outside.relay(t, at, provider)
	}
	return h
}

// ask sends a chat completion from the agent's machine.
func (h *host) ask(t *testing.T, address, key string) (status int, body string, err error) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return h.agent.dial(ctx, network, address)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// around are the ways around the gateway: the provider's address over IPv4 and IPv6, the gateway's port at it, and another port of the gateway's machine.
var around = []string{providerIP + ":443", "[" + providerIP6 + "]:443", providerIP + ":" + gatewayPort, gatewayIP + ":443"}

// TestE02TheAgentsHostReachesTheGatewayAlone: without the rules it reaches the provider, so that the test would see it; with them it reaches no address but the
// gateway's, over no protocol, and a session's key is served there.
func TestE02TheAgentsHostReachesTheGatewayAlone(t *testing.T) {
	h := newHost(t)
	for _, at := range around {
		if status, body, err := h.ask(t, at, h.provider.Key); err != nil || status != http.StatusOK {
			t.Fatalf("without rules, %s: %d %s, %v", at, status, body, err)
		}
	}
	got := h.gateway.Do(t, gateway.Call{Path: "/v1/sessions", Body: `{"golem_id":"g7"}`})
	var session struct {
		Key string `json:"key"`
	}
	got.JSON(t, &session)
	load(t, h.agent, map[string]string{"gateway": gatewayIP, "gateway_port": gatewayPort})
	calls := len(h.provider.Generations())
	for _, at := range around {
		if status, body, err := h.ask(t, at, h.provider.Key); err == nil {
			t.Errorf("with rules, %s: %d %s", at, status, body)
		}
	}
	if n := len(h.provider.Generations()); n != calls {
		t.Errorf("%d requests reached the provider", n-calls)
	}
	for _, at := range []string{gatewayIP + ":" + gatewayPort, gatewayIP + ":53", providerIP + ":443", "[" + providerIP6 + "]:443"} { // QUIC, and names that carry data
		c, err := h.agent.dial(t.Context(), "udp", at)
		if err == nil {
			_, err = c.Write([]byte("x"))
			_ = c.Close()
		}
		if err == nil {
			t.Errorf("a datagram to %s was sent", at)
		}
	}
	if status, body, err := h.ask(t, gatewayIP+":"+gatewayPort, session.Key); err != nil || status != http.StatusOK {
		t.Errorf("through the gateway: %d %s, %v", status, body, err)
	}
	if n := len(h.provider.Generations()); n != calls+1 {
		t.Errorf("the provider got %d requests, want one, from the gateway", n-calls)
	}
}
