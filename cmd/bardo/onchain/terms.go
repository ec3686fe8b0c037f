package onchain

import (
	"fmt"
	"strings"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/pay"
)

// Terms are the terms on which the operator accepts payments.
func Terms(cfg *config.Config) (*pay.Terms, error) {
	x := cfg.Billing.X402
	known, ok := pay.FindNetwork(x.Network)
	if !ok {
		return nil, fmt.Errorf("the network %q is not known", x.Network)
	}
	t := &pay.Terms{
		Network: known.Network, Asset: known.USDC, Fee: x.SettlementFee, MinPrice: x.Min, QuoteTTL: x.QuoteTTL, ServeTime: cfg.Routing.Timeouts.Total, Margin: settleMargin,
	}
	var err error
	if t.PayTo, err = pay.ParseAddress(x.PayTo); err != nil {
		return nil, fmt.Errorf("pay_to: %w", err)
	}
	if x.Asset == "" || strings.EqualFold(x.Asset, known.USDC.Address.String()) {
		return t, nil
	}
	t.Asset = pay.Token{Name: x.AssetName, Version: x.AssetVersion}
	if t.Asset.Address, err = pay.ParseAddress(x.Asset); err != nil {
		return nil, fmt.Errorf("asset: %w", err)
	}
	return t, nil
}

// settleMargin is the time allowed for a transfer after its request was served.
const settleMargin = 2 * time.Minute

// SettlementKey is the key of the settling account; "" if a facilitator settles.
func SettlementKey(x *config.X402) string {
	if x.Facilitator != (config.URL{}) {
		return ""
	}
	return x.SettlementKey.Reveal()
}
