package simulator

import (
	"strings"
	"testing"
)

func TestSumMetric(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		labels     []string
		want       float64
		fails      bool
	}{
		{"none", "# HELP x y\nx_other 4\nxx 5\n", nil, 0, false},
		{"all series", "x{a=\"b c\"} 2\nx{a=\"d\"} 3\n", nil, 5, false},
		{"no labels", "x 2\n", nil, 2, false},
		{"those with a label", "x{a=\"b\",c=\"d\"} 2\nx{a=\"b\"} 3\nx{c=\"d\"} 4\n", []string{`c="d"`}, 6, false},
		{"those with all labels", "x{a=\"b\",c=\"d\"} 2\nx{a=\"b\"} 3\nx{c=\"d\"} 4\n", []string{`c="d"`, `a="b"`}, 2, false},
		{"no number", "x many\n", nil, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := SumMetric(strings.NewReader(tt.text), "x", tt.labels...)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
