package org.sparkcep.catalyst;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;

/** Constructs objects of Spark's classes whose constructors take different numbers of arguments in 4.1 and 4.3. */
public final class Reflection {
  private Reflection() {}

  /** Returns a new object. The constructor's parameters after {@code first} get their default values. */
  public static Object construct(String className, Object... first) {
    try {
      Class<?> type = Class.forName(className, true, Reflection.class.getClassLoader());
      for (Constructor<?> constructor : type.getConstructors()) {
        Object[] arguments = fitting(constructor.getParameterTypes(), first, type);
        if (arguments != null) {
          return constructor.newInstance(arguments);
        }
      }
      throw new IllegalStateException("this Spark's " + className + " is not one that sparkcep knows");
    } catch (InvocationTargetException e) {
      throw Reflection.<RuntimeException>unchecked(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns {@code first} and the default values of the other parameters; null if the types do not fit. */
  private static Object[] fitting(Class<?>[] types, Object[] first, Class<?> owner) throws ReflectiveOperationException {
    if (types.length < first.length) {
      return null;
    }
    Object[] out = new Object[types.length];
    for (int i = 0; i < types.length; i++) {
      if (i >= first.length) {
        try {
          out[i] = owner.getMethod("apply$default$" + (i + 1)).invoke(null);
          continue;
        } catch (NoSuchMethodException e) {
          return null;
        }
      }
      boolean fits = types[i] == int.class
          ? first[i] instanceof Integer
          : types[i] == boolean.class ? first[i] instanceof Boolean : first[i] == null || types[i].isInstance(first[i]);
      if (!fits) {
        return null;
      }
      out[i] = first[i];
    }
    return out;
  }

  /** Throws an exception that the caller does not declare. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> E unchecked(Throwable raised) throws E {
    throw (E) raised;
  }
}
