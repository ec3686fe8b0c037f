package resolve

import (
	"math"
	"math/bits"

	"bardo.money/gateway/policy"
)

// WorstCost is the most that a request may cost at any of its resolutions: every input token at the dearest rate an input
// token can have there, and for each of the choices that were asked for output tokens up to the model's own limit. Counts
// below zero are zero; a cost beyond what an amount can hold is the largest amount.
func WorstCost(order []policy.Resolution, input, output, choices int64) policy.Pico {
	var worst policy.Pico
	for i := range order {
		worst = max(worst, worstAt(&order[i], input, output, choices))
	}
	return worst
}

func worstAt(r *policy.Resolution, input, output, choices int64) policy.Pico {
	if r.MaxOutput > 0 {
		output = min(output, int64(r.MaxOutput))
	}
	choices = max(choices, 1)
	output = min(output, math.MaxInt64/choices) * choices
	in, out := r.Prices.Dearest(input)
	return add(add(r.Prices.PerRequest, cost(in, input)), cost(out, output))
}

// cost is the price of n tokens, at most the largest amount.
func cost(p policy.Price, n int64) policy.Pico {
	if p <= 0 || n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(p), uint64(n))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return policy.Pico(lo)
}

func add(a, b policy.Pico) policy.Pico {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
