package simulator

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// SumMetric adds up the series of a metric in the Prometheus text format that
// have all these labels, each written as name="value".
func SumMetric(r io.Reader, name string, labels ...string) (sum float64, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") || !containsAll(rest, labels) {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, lines.Err()
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
