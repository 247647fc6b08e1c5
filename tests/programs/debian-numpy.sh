#: package python3-numpy
#: long
#: minutes 8
# Debian's numpy, whose libraries of linear algebra are found by names that their maintainer scripts make.
exec python3 -c '
import numpy
a = numpy.arange(9.0).reshape(3, 3) + numpy.eye(3)
print((a @ a).tolist(), round(float(numpy.linalg.det(a)), 6))
print(numpy.linalg.solve(a, numpy.ones(3)).round(6).tolist())
'
