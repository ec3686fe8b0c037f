package ui

import (
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// chart is a bar chart by day: the cost, and stacked on it the savings. Units are those of the SVG.
type chart struct {
	Width, Height int
	Bars          []bar
	Lines         []line
	Empty         bool
}

// bar is one day.
type bar struct {
	Day                     string
	X, Width                float64
	CostY, CostHeight       float64
	SavedY, SavedHeight     float64
	LabelX                  float64
	Label                   string // below the bar; "" for none
	Cost, Saved             policy.Micro
	Requests, Input, Output int64
}

// line is a horizontal grid line with its amount.
type line struct {
	Y      float64
	Amount policy.Micro
}

const (
	chartWidth  = 720
	chartHeight = 220
	chartLeft   = 64 // left margin, for amounts
	chartRight  = 14
	chartTop    = 10  // above the highest bar
	chartBottom = 196 // y of the base line
)

// newChart draws days from first on.
func newChart(first time.Time, days int, rows []ledger.UsageRow) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Empty: true}
	byDay := map[string]*ledger.UsageRow{}
	var highest policy.Micro
	for i := range rows {
		byDay[rows[i].Name] = &rows[i]
		highest = max(highest, rows[i].Cost+max(rows[i].Saved, 0))
		c.Empty = c.Empty && rows[i].Requests == 0
	}
	top := roundUp(highest)
	scale := float64(chartBottom-chartTop) / float64(top)
	step := float64(chartWidth-chartLeft-chartRight) / float64(days)
	labelEvery := max(days/6, 1)
	for i := range days {
		day := first.AddDate(0, 0, i)
		b := bar{Day: day.Format("2 January 2006"), X: chartLeft + step*float64(i) + step*0.12, Width: step * 0.76, LabelX: chartLeft + step*(float64(i)+0.5)}
		if (days-1-i)%labelEvery == 0 {
			b.Label = day.Format("2 Jan")
		}
		if u := byDay[day.Format(time.DateOnly)]; u != nil {
			b.Cost, b.Saved, b.Requests, b.Input, b.Output = u.Cost, u.Saved, u.Requests, u.Input, u.Output
		}
		b.CostHeight, b.SavedHeight = float64(b.Cost)*scale, float64(max(b.Saved, 0))*scale
		b.CostY = chartBottom - b.CostHeight
		b.SavedY = b.CostY - b.SavedHeight
		c.Bars = append(c.Bars, b)
	}
	for i := range 5 {
		amount := top * policy.Micro(i) / 4
		c.Lines = append(c.Lines, line{Y: chartBottom - float64(amount)*scale, Amount: amount})
	}
	return c
}

// roundUp returns the smallest of 1, 2, 4 and 8 times a power of ten that is at least m.
func roundUp(m policy.Micro) policy.Micro {
	for unit := policy.Micro(100); ; unit *= 10 {
		for _, n := range []policy.Micro{1, 2, 4, 8} {
			if n*unit >= m {
				return n * unit
			}
		}
	}
}
