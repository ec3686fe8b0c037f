package identity

import (
	"context"
	"errors"
	"math/big"

	"bardo.money/gateway/policy/pay"
)

// Agent is an agent of an identity registry (ERC-8004): a token, whose owner and whose wallet may speak for it.
type Agent struct {
	Owner  pay.Address
	Wallet pay.Address // zero: none
}

// SpokenForBy reports whether an address may speak for the agent.
func (a Agent) SpokenForBy(who pay.Address) bool {
	return who != (pay.Address{}) && (who == a.Owner || who == a.Wallet)
}

// Chain is a node of the registries' chain. Its errors are the node's, unless they are said to be others. Safe for concurrent use.
type Chain interface {
	// Check makes sure that the node is of the realm's chain, and that the registries are there and belong together. The error is a *pay.Mismatch if not.
	Check(ctx context.Context) error
	// Agent reads an agent. The error is ErrNoAgent if there is none of this id.
	Agent(ctx context.Context, id pay.Word) (Agent, error)
	// Score is an agent's reputation: the sum of what the operator's reviewers said of it, each opinion between 0 and 1, rounded down.
	Score(ctx context.Context, id pay.Word) (int64, error)
	// Recover is the account without code that signed a digest; ok is false if the signature is none, or has a high s. It needs no node.
	Recover(digest pay.Word, signature []byte) (who pay.Address, ok bool)
	// Confirms reports whether a contract wallet says that a signature is its own. The contract is a stranger's: what it may do is bounded.
	Confirms(ctx context.Context, wallet pay.Address, digest pay.Word, signature []byte) (bool, error)
}

// ErrNoAgent says that the registry has no agent of an id.
var ErrNoAgent = errors.New("the registry has no such agent")

// NodeOptions say where the registries' node is, and whose opinions count.
type NodeOptions struct {
	URL        string // of its JSON-RPC interface
	Realm      Realm
	Reputation pay.Address   // the registry of opinions; zero: there is none
	Reviewers  []pay.Address // whose opinions count; none: no opinion does
	Tags       []string      // of the opinions that count; none: all
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

// reputationSpreads are the percentages on a provider's cost by score, the highest first (D-51).
var reputationSpreads = []struct {
	score  int64
	name   string
	spread int
}{{1000, "sovereign", 8}, {500, "trusted", 12}, {200, "verified", 15}, {50, "basic", 18}}

// ReputationSpread is the percentage of a score, and the tier's name; 0 and "none" where the score is too low for any.
func ReputationSpread(score int64) (pct int, tier string) {
	for _, t := range reputationSpreads {
		if score >= t.score {
			return t.spread, t.name
		}
	}
	return 0, "none"
}
