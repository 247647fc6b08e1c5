/* What the real program compiles, once for each NUMBER. It includes nothing, so that only the compiler is needed. */

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)
#define NAME(word) NAMED(word##_, NUMBER)

typedef unsigned long size;
typedef unsigned int word;

struct entry {
    const char *key;
    long value;
    struct entry *next;
};

struct table {
    struct entry *buckets[64];
    struct entry entries[256];
    size count;
};

static size length(const char *text)
{
    const char *at = text;
    while (*at)
        at++;
    return at - text;
}

static int compare(const char *one, const char *other)
{
    while (*one && *one == *other)
        one++, other++;
    return (unsigned char)*one - (unsigned char)*other;
}

static word hash(const char *key)
{
    word value = 2166136261u;
    for (size i = 0, end = length(key); i < end; i++)
        value = (value ^ (unsigned char)key[i]) * 16777619u;
    return value;
}

struct entry *NAME(find)(struct table *table, const char *key)
{
    struct entry *entry = table->buckets[hash(key) % 64];
    while (entry && compare(entry->key, key))
        entry = entry->next;
    return entry;
}

int NAME(insert)(struct table *table, const char *key, long value)
{
    struct entry *entry = NAME(find)(table, key);
    if (!entry) {
        if (table->count == 256)
            return -1;
        struct entry **bucket = &table->buckets[hash(key) % 64];
        entry = &table->entries[table->count++];
        entry->key = key;
        entry->next = *bucket;
        *bucket = entry;
    }
    entry->value = value;
    return 0;
}

void NAME(sort)(long *values, size count)
{
    for (size gap = count / 2; gap; gap /= 2)
        for (size i = gap; i < count; i++) {
            long value = values[i];
            size at = i;
            for (; at >= gap && values[at - gap] > value; at -= gap)
                values[at] = values[at - gap];
            values[at] = value;
        }
}

static long expression(const char **at, int level)
{
    long value = 0;
    if (level == 2) {
        if (**at == '(') {
            ++*at;
            value = expression(at, 0);
            ++*at;
            return value;
        }
        for (; **at >= '0' && **at <= '9'; ++*at)
            value = value * 10 + **at - '0';
        return value;
    }
    value = expression(at, level + 1);
    for (;;) {
        switch (**at) {
        case '+':
        case '-':
            if (level != 0)
                return value;
            break;
        case '*':
        case '/':
            if (level != 1)
                return value;
            break;
        default:
            return value;
        }
        char operator = *(*at)++;
        long other = expression(at, level + 1);
        switch (operator) {
        case '+': value += other; break;
        case '-': value -= other; break;
        case '*': value *= other; break;
        case '/': value = other ? value / other : 0; break;
        }
    }
}

long NAME(evaluate)(const char *text)
{
    return expression(&text, 0);
}
