package issuers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"k8s.io/utils/clock"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

const (
	// refreshAfter is how old keys are when the provider is asked for them again, at the next token. Until
	// it has answered, those that are known count.
	refreshAfter = 10 * time.Minute
	// askEvery is how often a provider is asked at most, whatever tokens are shown.
	askEvery = 10 * time.Second
	// fetchTimeout is how long one answer may take in all.
	fetchTimeout = 10 * time.Second
	// mostWaiting is how many requests wait for a provider at a time.
	mostWaiting = 128
	// mostTried is how many keys are tried for a token.
	mostTried = 4
)

var (
	errSignature = errors.New("the token has no signature of its provider")
	errNoID      = fmt.Errorf("the token does not say the ID of its key, and the provider has more than %d", mostTried)
	errWaiting   = errors.New("too many requests wait for the provider already")
	errSlow      = errors.New("the provider does not answer in time")
)

// key is a public key of a provider.
type key struct {
	id  string
	key publicKey
}

func (k key) equal(o key) bool { return k.id == o.id && k.key.Equal(o.key) }

// keys are the keys of one provider, as upstream's authenticator asks for them.
type keys struct {
	clock clock.PassiveClock
	fetch func(context.Context) ([]key, error)
	// tell is told of every fetch that failed, of one at a time.
	tell func(error)

	mu      sync.Mutex
	known   []key     // never changed, others take its place
	others  int       // how often others have taken its place
	asked   time.Time // when the provider was asked last, and has answered or not; zero for never
	read    time.Time // when it last answered
	err     error     // why it did not, the last time
	running chan struct{}
	waiting int
}

// VerifySignature implements the keys of upstream's authenticator.
func (k *keys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSigned(token)
	if err != nil {
		return nil, err
	}
	if len(jws.Signatures) != 1 {
		return nil, errSignature
	}
	known, was := k.fresh()
	if payload, err := verify(jws, known); payload != nil || err != nil {
		return payload, err
	}
	known, is, err := k.next(ctx)
	if err != nil {
		if failed, ok := ctx.Value(failureKey{}).(*error); ok && ctx.Err() == nil {
			*failed = err
		}
		return nil, err
	}
	if is != was {
		if payload, err := verify(jws, known); payload != nil || err != nil {
			return payload, err
		}
	}
	return nil, errSignature
}

// failureKey is of the error in a context that gets why the keys are not known: upstream tells the text alone.
type failureKey struct{}

// verify tries the keys that can be that of a token: of one that does not say which, all, and so of few only.
func verify(jws *jose.JSONWebSignature, known []key) ([]byte, error) {
	id := jws.Signatures[0].Header.KeyID
	if id == "" && len(known) > mostTried {
		return nil, errNoID
	}
	tried := 0
	for _, k := range known {
		if id != "" && k.id != id {
			continue
		}
		if tried++; tried > mostTried {
			break
		}
		if payload, err := jws.Verify(k.key); err == nil {
			return payload, nil
		}
	}
	return nil, nil
}

// fresh are the keys that are known, and which of all that there were. Where these are old, others are asked
// for meanwhile.
func (k *keys) fresh() ([]key, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) > 0 && k.clock.Since(k.read) >= refreshAfter {
		k.begin()
	}
	return k.known, k.others
}

// begin asks the provider, unless it is being asked or was a moment ago. k.mu is held.
func (k *keys) begin() {
	if k.running != nil || !k.asked.IsZero() && k.clock.Since(k.asked) < askEvery {
		return
	}
	done := make(chan struct{})
	k.running, k.asked = done, k.clock.Now()
	go func() {
		// It is for all who wait, so it goes on when one of them has gone.
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		known, err := k.fetch(ctx)
		if err != nil {
			k.tell(err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err = err; err == nil {
			if !slices.EqualFunc(k.known, known, key.equal) {
				k.known = known
				k.others++
			}
			k.read = k.clock.Now()
		}
		// From now on, so that those who come then do not wait as well.
		k.running, k.asked = nil, k.clock.Now()
		close(done)
	}()
}

// next waits for keys that are not known yet, without a seat, and says which of all that there were they are.
func (k *keys) next(ctx context.Context) ([]key, int, error) {
	k.mu.Lock()
	k.begin()
	running := k.running
	if running == nil {
		defer k.mu.Unlock()
		return k.known, k.others, k.err
	}
	if k.waiting >= mostWaiting {
		k.mu.Unlock()
		return nil, 0, errWaiting
	}
	k.waiting++
	k.mu.Unlock()

	seat, late := fairqueue.Of(ctx), false
	seat.Wait(func() {
		// What is asked ends then, but nobody waits for how it ends.
		enough := time.NewTimer(fetchTimeout)
		defer enough.Stop()
		select {
		case <-running:
		case <-ctx.Done():
		case <-enough.C:
			late = true
		}
	})
	k.mu.Lock()
	k.waiting--
	known, others, err := k.known, k.others, k.err
	k.mu.Unlock()
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	seat.Need()
	if late {
		return nil, 0, errSlow
	}
	return known, others, err
}
