package server

import (
	"os"
	"runtime/debug"

	"github.com/sirupsen/logrus"
)

// garbage is how much garbage, in percent of what is in use, the process lets
// lie before it collects it. Go's 100 leaves nearly twice the live heap
// resident after a burst of changes: objects that stay are spread over all the
// memory that was in use between two collections, and Go does not move them.
const garbage = 50

// limitGarbage makes the process collect garbage more often than Go by itself
// does, unless the operator has said how often.
func limitGarbage(getenv func(string) string, set func(percent int) int, log *logrus.Entry) {
	if value := getenv("GOGC"); value != "" {
		log.Infof("Garbage is collected as GOGC=%s says", value)
		return
	}
	set(garbage)
}

func limitProcessGarbage(log *logrus.Entry) { limitGarbage(os.Getenv, debug.SetGCPercent, log) }
