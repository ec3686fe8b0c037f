package identity

import (
	"context"
	"errors"
	"math/big"

	"bardo.money/gateway/policy/pay"
)

// Agent is an agent of an identity registry (ERC-8004): a token, whose owner and whose wallet may act for it.
type Agent struct {
	Owner  pay.Address
	Wallet pay.Address // zero: none
}

// SpokenForBy reports whether an address may act for the agent.
func (a Agent) SpokenForBy(who pay.Address) bool {
	return who != (pay.Address{}) && (who == a.Owner || who == a.Wallet)
}

// Chain is a node of the registries' chain. Its errors are the node's, unless stated otherwise. Safe for concurrent use.
type Chain interface {
	// Check verifies that the node is of the realm's chain, and that the registries exist and belong together. The error is a *pay.Mismatch if not.
	Check(ctx context.Context) error
	// Agent reads an agent. The error is ErrNoAgent if there is none of this id.
	Agent(ctx context.Context, id pay.Word) (Agent, error)
	// Score returns an agent's reputation: the sum of the operator's reviewers' ratings, each between 0 and 1, rounded down.
	Score(ctx context.Context, id pay.Word) (int64, error)
	// Recover returns the account without code that signed a digest; ok is false if the signature is invalid, or has a high s. It needs no node.
	Recover(digest pay.Word, signature []byte) (who pay.Address, ok bool)
	// Confirms reports whether a contract wallet accepts a signature as its own. The contract is untrusted: its execution is bounded.
	Confirms(ctx context.Context, wallet pay.Address, digest pay.Word, signature []byte) (bool, error)
}

// ErrNoAgent is returned for an id that is not in the registry.
var ErrNoAgent = errors.New("the registry has no such agent")

// NodeOptions configure the registries' node, and which ratings count.
type NodeOptions struct {
	URL        string // its JSON-RPC URL
	Realm      Realm
	Reputation pay.Address   // the reputation registry; zero: none
	Reviewers  []pay.Address // reviewers whose ratings count; none: no ratings count
	Tags       []string      // tags of the ratings that count; none: all
	Scale      int64         // the value that counts as 1
}

// maxAgentID is the longest id in decimal digits: that of 2^256-1.
const maxAgentID = 78

// ParseAgentID reads the id of an agent in decimal digits. 0 is one.
func ParseAgentID(s string) (id pay.Word, err error) {
	bad := errors.New("an agent's id is a whole number below 2^256, in decimal digits")
	if s == "" || len(s) > maxAgentID || len(s) > 1 && s[0] == '0' {
		return id, bad
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return id, bad
		}
	}
	n, _ := new(big.Int).SetString(s, 10)
	if n.BitLen() > 8*len(id) {
		return id, bad
	}
	n.FillBytes(id[:])
	return id, nil
}

// AgentIDText is an id in decimal digits.
func AgentIDText(id pay.Word) string { return new(big.Int).SetBytes(id[:]).String() }

// reputationSpreads are the percentages on a provider's cost by score, highest first (D-51).
var reputationSpreads = []struct {
	score  int64
	name   string
	spread int
}{{1000, "sovereign", 8}, {500, "trusted", 12}, {200, "verified", 15}, {50, "basic", 18}}

// ReputationSpread returns the percentage of a score, and the tier's name; 0 and "none" if the score is too low.
func ReputationSpread(score int64) (pct int, tier string) {
	for _, t := range reputationSpreads {
		if score >= t.score {
			return t.spread, t.name
		}
	}
	return 0, "none"
}
