package sides

import "testing"

func TestMetric(t *testing.T) {
	text := []byte("# HELP a b\na_more 1\na{x=\"y\"} 2\na 3.5e+06\n")
	if v, err := metric(text, "a"); err != nil || v != 3.5e6 {
		t.Errorf("%v %v", v, err)
	}
	if _, err := metric(text, "b"); err == nil {
		t.Error("a metric that there is not has a value")
	}
}
