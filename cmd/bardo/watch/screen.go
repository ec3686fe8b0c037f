package watch

import (
	"context"
	"errors"
	"io"
	"os"

	"charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"bardo.money/gateway/cmd/bardo/home"
)

// watchScreen renders on a terminal until the user quits, ctx is done, or no gateway runs initially.
func watchScreen(ctx context.Context, h home.Dir, in io.Reader, out *os.File) error {
	return runScreen(ctx, h, tea.WithInput(in), tea.WithOutput(out))
}

func runScreen(ctx context.Context, h home.Dir, options ...tea.ProgramOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(screen{view: &view{}}, append(options, tea.WithContext(ctx), tea.WithoutSignalHandler())...)
	followed := make(chan error, 1)
	go func() {
		defer cancel()
		followed <- follow(ctx, h, func(s update) { p.Send(s) })
	}()
	_, err := p.Run()
	cancel()
	if errors.Is(err, tea.ErrProgramKilled) { // by ctx
		err = nil
	}
	return errors.Join(err, <-followed)
}

// screen is a view and the terminal's size.
type screen struct {
	view          *view
	width, height int
}

var _ tea.Model = screen{}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyPressMsg:
		switch m.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case update:
		s.view.apply(m)
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View {
	if s.width == 0 { // the terminal's size is not known yet
		return tea.NewView("")
	}
	const keys = "q leaves"
	v := tea.NewView(s.view.render(s.width, s.height-1, coloured) + "\n" + coloured(styleFaint, keys))
	v.AltScreen = true
	v.WindowTitle = "bardo watch"
	return v
}

var colours = map[textStyle]lipgloss.Style{
	stylePlain: lipgloss.NewStyle(),
	styleHead:  lipgloss.NewStyle().Bold(true),
	styleGood:  lipgloss.NewStyle().Foreground(lipgloss.Green),
	styleWarn:  lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	styleBad:   lipgloss.NewStyle().Foreground(lipgloss.Red),
	styleFaint: lipgloss.NewStyle().Faint(true),
}

// coloured is the palette of terminals. Those without colour support ignore it.
func coloured(m textStyle, text string) string {
	style, ok := colours[m]
	if !ok || text == "" {
		return text
	}
	return style.Render(text)
}
