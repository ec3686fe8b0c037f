package replay

import (
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// CatalogPrices are the catalog's prices, as the command uses them if no list of models was read.
func CatalogPrices(cfg *config.Config) (func(model string) policy.Prices, error) {
	models, err := settings.Models(cfg, nil)
	return pricesOf(cfg, models), err
}
