package agenthost

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// file is the example. The test loads what it says, and fails on a statement that it does not know.
const file = "../../docs/deploy/agent-host.nft"

// load puts the example's rules into a namespace, with other values in place of its definitions.
func load(t *testing.T, s *space, values map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nftables.New(nftables.WithNetNSFd(s.fd(t)))
	if err != nil {
		t.Fatalf("%v: %s", err, needs)
	}
	l := loader{c: c, values: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "define "), " = "); ok && strings.HasPrefix(line, "define ") {
			if values[name] == "" {
				t.Fatalf("%s defines %s = %s, which the test does not set", file, name, value)
			}
			l.values[name] = values[name]
			continue
		}
		if !l.statement(line) {
			t.Fatalf("%s: the test does not know %q", file, line)
		}
	}
	if len(l.values) != len(values) {
		t.Fatalf("%s defines %v, want all of %v", file, l.values, values)
	}
	if err := c.Flush(); err != nil {
		t.Fatalf("%v: %s", err, needs)
	}
}

// loader makes netlink messages of the statements of a file.
type loader struct {
	c      *nftables.Conn
	values map[string]string
	table  *nftables.Table
	chain  *nftables.Chain
}

// statement adds one line; false for one that is not known.
func (l *loader) statement(line string) bool {
	name, opens := strings.CutSuffix(line, " {")
	switch {
	case line == "" || line == "}" || strings.HasPrefix(line, "#"), line == "table inet agent_host", line == "delete table inet agent_host": // the namespace is new
		return true
	case opens && strings.HasPrefix(name, "table inet "):
		l.table = l.c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: strings.TrimPrefix(name, "table inet ")})
		return true
	case opens && strings.HasPrefix(name, "chain "):
		l.chain = &nftables.Chain{Name: strings.TrimPrefix(name, "chain "), Table: l.table, Type: nftables.ChainTypeFilter, Priority: nftables.ChainPriorityFilter}
		return true
	case strings.HasPrefix(line, "type "):
		return l.hook(line)
	}
	rule := l.rule(line)
	if rule != nil {
		l.c.AddRule(&nftables.Rule{Table: l.table, Chain: l.chain, Exprs: rule})
	}
	return rule != nil
}

func (l *loader) hook(line string) bool {
	hook, ok := map[string]*nftables.ChainHook{
		"type filter hook output priority filter; policy drop;":  nftables.ChainHookOutput,
		"type filter hook forward priority filter; policy drop;": nftables.ChainHookForward,
	}[line]
	policy := nftables.ChainPolicyDrop
	l.chain.Hooknum, l.chain.Policy = hook, &policy
	l.c.AddChain(l.chain)
	return ok
}

// rule is a rule as nft compiles it; nil for one that is not known.
func (l *loader) rule(line string) []expr.Any {
	accept, equal := &expr.Verdict{Kind: expr.VerdictAccept}, func(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
	switch line {
	case `oifname "lo" accept`:
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equal(append([]byte("lo"), make([]byte, unix.IFNAMSIZ-2)...)), accept}
	case "ct state established accept":
		return []expr.Any{
			&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED), Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, accept,
		}
	case "ip daddr $gateway tcp dport $gateway_port accept":
		address, err := netip.ParseAddr(l.values["gateway"])
		port, bad := strconv.ParseUint(l.values["gateway_port"], 10, 16)
		if err != nil || bad != nil {
			return nil
		}
		const destination, destinationPort = 16, 2 // offsets in the headers of IPv4 and TCP
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equal([]byte{unix.NFPROTO_IPV4}),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destination, Len: 4}, equal(address.AsSlice()),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal([]byte{unix.IPPROTO_TCP}),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: destinationPort, Len: 2}, equal(binary.BigEndian.AppendUint16(nil, uint16(port))),
			accept,
		}
	case "reject with icmpx admin-prohibited":
		return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
	}
	return nil
}
